"""Does it pay to tune dropout and weight decay together with augmentation?"""
