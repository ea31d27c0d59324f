"""`python -m slabsvm`: the command, where the folder of scripts is not searched."""

from slabsvm.command import main

if __name__ == "__main__":
    main()
