"""A small JPEG of four colours that a decoder must get right before it is trusted with others."""

from __future__ import annotations

import base64

__all__ = ["COLOURS", "JPEG", "is_right"]

COLOURS = ((200, 40, 40), (40, 180, 60), (50, 60, 210), (230, 220, 90))
"""Of its quarters: upper left, upper right, lower left, lower right."""

JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAx"
    "NDQ0Hyc5PTgyPC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIy"
    "MjIyMjIyMjL/wAARCABgAIADASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUF"
    "BAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVW"
    "V1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi"
    "4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAEC"
    "AxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVm"
    "Z2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq"
    "8vP09fb3+Pn6/9oADAMBAAIRAxEAPwDl6KKK8c/RwooooAKKKKACiiigDpKKKK5z8DCiiigAooooAKKKKAOboooroP3wKKKKACii"
    "igAooooA6Siiiuc/AwooooAKKKKACiiigDm6KKK6D98CiiigAooooAKKKKAOkooornPwMKKKKACiiigAooooA42iiiv2Q+mCiiig"
    "AooooAKKKKAPoaiiiv5/PdCiiigAooooAKKKKAPnmiiiv6APCCiiigAooooAKKKKAPoaiiiv5/PdCiiigAooooAKKKKAPnmiiiv6"
    "APCCiiigAooooAKKKKAPoaiiiv5/PdCiiigAooooAKKKKAP/2Q=="
)
"""128×96, baseline, 4:2:0."""


def is_right(pixels: bytes, width: int, height: int) -> bool:
    """Whether RGB pixels of that size show the four colours."""
    for number, colour in enumerate(COLOURS):
        x, y = width * (1 + 2 * (number % 2)) // 4, height * (1 + 2 * (number // 2)) // 4
        seen = pixels[(y * width + x) * 3 : (y * width + x) * 3 + 3]
        if len(seen) != 3 or any(abs(one - other) > 4 for one, other in zip(seen, colour)):
            return False
    return True
