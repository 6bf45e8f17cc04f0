"""What the supervisor refuses to do: each class is named after the reason and its docstring is what a person reads."""


class Refusal(Exception):
    """This cannot be done."""

    def __init__(self, **words: object) -> None:
        super().__init__((type(self).__doc__ or "").format(**words))
