"""The changelog says what a release would say; what a change did is in its commit."""

from .test_reading import read


def test_the_changelog_is_short_and_knows_no_time_before_the_first_version():
    text = read("CHANGELOG.md")
    assert len(text.splitlines()) <= 30
    assert not [word for word in ("### Changed", "### Fixed", "no longer") if word in text]
