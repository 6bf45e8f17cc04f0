"""`python -m farmhand` is `farmhand`."""

from farmhand.cli import main

if __name__ == "__main__":
    main()
