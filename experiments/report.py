"""What experiments share: the programs that they run, and how they tell what they found."""


def jain(shares):
    """Jain's index of fairness: 1 if all shares are equal, 1/n if one has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))
