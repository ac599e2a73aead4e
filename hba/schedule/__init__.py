"""The schedule: one policy for each epoch, its file, its pictures, and its transform."""
