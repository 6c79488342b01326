"""What two texts have in common."""


def common_prefix(first, second):
    """The longest text that both begin with."""
    length = 0
    while length < min(len(first), len(second)) and first[length] == second[length]:
        length += 1
    return first[:length]


def common_suffix(first, second):
    """The longest text that both end with."""
    return common_prefix(first[::-1], second[::-1])[::-1]


def longest_common(first, second):
    """The length of the longest text whose letters occur in both in its order, with gaps or without."""
    above = [0] * (len(second) + 1)
    for letter in first:
        row = [0]
        for place, other in enumerate(second):
            if letter == other:
                row.append(above[place] + 1)
            else:
                row.append(max(above[place + 1], row[place]))
        above = row
    return above[-1]
