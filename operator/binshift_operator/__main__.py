"""``python -m binshift_operator``."""

from binshift_operator.main import run

if __name__ == "__main__":
    run()
