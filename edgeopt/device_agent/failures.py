"""What a job can end with besides a result."""


class JobError(Exception):
    """An error that is told to the host: a code of the protocol, a text, and what to do."""

    def __init__(self, code, text, hint=""):
        super(JobError, self).__init__(text)
        self.code = code
        self.text = text
        self.hint = hint

    def reply(self, phase=""):
        """The error as the protocol writes it."""
        return {"code": self.code, "text": self.text, "hint": self.hint, "phase": phase}
