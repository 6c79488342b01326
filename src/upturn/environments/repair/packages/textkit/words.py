"""Words of a text."""

SMALL = ("a", "an", "and", "of", "or", "the", "to")


def split_words(text):
    """The words of the text, without punctuation at their ends, in lower case.

    A part that is only punctuation is no word.
    """
    words = []
    for part in text.split():
        word = part.strip(".,;:!?")
        if word:
            words.append(word.lower())
    return words


def title_case(text):
    """The words with capitals, joined by single spaces.

    The words in SMALL stay small, but the first and the last word have a capital in any case.
    """
    words = split_words(text)
    last = len(words) - 1
    titled = []
    for number, word in enumerate(words):
        if word in SMALL and 0 < number < last:
            titled.append(word)
        else:
            titled.append(word[:1].upper() + word[1:])
    return " ".join(titled)


def initials(text, most=3):
    """The first letters of at most ``most`` words that are not in SMALL, in capitals."""
    letters = [word[0] for word in split_words(text) if word not in SMALL]
    return "".join(letters[:most]).upper()
