"""What all experiments share: cells to records, the methods compared, and the terminal."""
