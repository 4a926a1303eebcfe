"""`python -m peerwise` is the command `peerwise`."""

from peerwise.cli import main

if __name__ == "__main__":
    main()
