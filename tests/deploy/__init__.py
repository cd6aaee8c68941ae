"""Files of deploy/, run as far as possible without their platforms."""
