"""What all benchmarks share: records and their store, a pool, images, seconds per step, tables and pages."""
