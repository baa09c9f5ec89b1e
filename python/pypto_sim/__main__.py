"""`python -m pypto_sim`."""
import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
