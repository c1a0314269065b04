"""The one error that means: what the user brought is wrong."""


class InputError(ValueError):
    """Wrong input or settings.

    The message is one line for the user: where (file, row, field), what is wrong, what was expected. The command
    line prints it and exits with status 2.
    """
