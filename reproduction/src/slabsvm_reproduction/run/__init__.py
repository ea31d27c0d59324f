"""What all experiments share: cells to records, the methods compared, and what a terminal shows of it."""
