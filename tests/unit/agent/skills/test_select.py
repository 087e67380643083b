from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.skills.select import named_skill, score, select_skills
from agent.skills.skill import Skill
from tests.support.skills import make_skill


def names(skills: tuple[Skill, ...]) -> list[str]:
    return [skill.name for skill in skills]


@pytest.mark.parametrize(
    ("activation", "message", "points"),
    [
        ("keywords: [commit]", "Please COMMIT it!", 10),
        ("keywords: [commit]", "two commits", 5),
        ("keywords: [commit]", "committed, then a commit.", 10),
        ("keywords: [commit]", "my_commit_hook", 5),
        ("keywords: [commit]", "nothing", 0),
        ("keywords: [pull request]", "open a pull\n  request", 10),
        ("keywords: [straße]", "Die STRAßE ist lang", 10),
        ("keywords: [straße]", "Hauptstraße", 5),
        ("keywords: ['e\u0301te\u0301']", "cet \u00e9t\u00e9", 10),
        ("keywords: [привет]", "Привет, мир", 10),
        ("keywords: [привет]", "приветствие", 5),
        ("keywords: [东京塔]", "我想去东京塔看看", 5),
        ("keywords: [c++]", "write C++, please", 10),
        ("keywords: [one, two, three, four]", "one two three four", 30),
        ("tags: [git, vcs]", "github and vcs", 6),
        ("tags: [aaa, bbb, ccc, ddd, eee, fff]", "aaa bbb ccc ddd eee fff", 15),
        ("patterns: ['fix #\\d+']", "FIX #12", 20),
        ("patterns: [aaa, bbb, ccc]", "aaa bbb ccc", 40),
    ],
)
def test_each_signal_counts_its_points_up_to_its_cap(activation: str, message: str, points: int) -> None:
    assert score(make_skill("a", activation), message) == points


def test_signals_add_up_and_an_excluded_word_outweighs_them() -> None:
    skill = make_skill("a", "keywords: [commit]", "tags: [git]", "patterns: ['git \\w+']", "exclude_keywords: [Gitlab]")

    assert score(skill, "git commit") == 33
    assert score(skill, "git commit on gitlab") == 0


def test_words_far_behind_the_front_of_a_message_do_not_count() -> None:
    skill = make_skill("a", "keywords: [commit]", "patterns: [merge]")

    assert score(skill, "x " * 5000 + "commit") == 0
    assert score(skill, "x " * 2000 + "merge") == 0


def test_the_best_come_first_and_equal_ones_stay_in_load_order() -> None:
    skills = [make_skill(name, f"keywords: [{words}]", "max_context_tokens: 9") for name, words in
              [("b", "commit"), ("a", "commit"), ("c", "commit, rebase"), ("d", "nothing")]]  # fmt: skip

    assert names(select_skills(skills, "commit and rebase")) == ["c", "b", "a"]
    assert names(select_skills(skills, "commit and rebase", max_active=2)) == ["c", "b"]
    assert select_skills(skills, "commit and rebase", max_active=0) == ()


def test_a_skill_too_large_for_the_rest_of_the_budget_makes_way_for_the_next() -> None:
    skills = [make_skill(name, "keywords: [commit]", f"max_context_tokens: {cost}") for name, cost in
              [("a", 3000), ("b", 1500), ("c", 1000)]]  # fmt: skip

    assert names(select_skills(skills, "commit")) == ["a", "c"]


def test_a_named_skill_comes_first_whatever_it_scores_but_within_the_budget() -> None:
    vetoed = make_skill("Vetoed", "keywords: [commit]", "exclude_keywords: [never]")
    huge = make_skill("huge", "max_context_tokens: 5000")
    other = make_skill("other", "keywords: [commit]")

    assert names(select_skills([other, vetoed, huge], "never commit", ["vetoed", "huge", "gone"])) == [
        "Vetoed",
        "other",
    ]


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("/git-help", "git-help"),
        ("  /GIT-Help do it", "git-help"),
        ("/git-help\nand more", "git-help"),
        ("/git-helper", None),
        ("git-help", None),
        ("do /git-help", None),
        ("/", None),
        ("", None),
        ("/git-help/../x", None),
    ],
)
def test_a_message_that_begins_with_slash_and_a_name_names_that_skill(message: str, name: str | None) -> None:
    assert named_skill(message, [make_skill("git-help")]) == name


WORDS = ("commit", "rebase", "merge", "straße")
SKILLS = st.lists(
    st.tuples(st.sampled_from(WORDS), st.integers(0, 3000)).map(
        lambda made: (f"keywords: [{made[0]}]", f"max_context_tokens: {made[1]}")
    ),
    max_size=8,
).map(lambda made: [make_skill(f"s{number}", *activation) for number, activation in enumerate(made)])


@given(SKILLS, st.lists(st.sampled_from(WORDS)).map(" ".join) | st.text(), st.integers(0, 4), st.integers(0, 5000))
def test_a_selection_keeps_to_its_budget_and_is_the_same_each_time(
    skills: list[Skill], message: str, most: int, tokens: int
) -> None:
    chosen = select_skills(skills, message, ("s1",), max_active=most, max_tokens=tokens)

    assert len(chosen) <= most
    assert sum(skill.cost_tokens for skill in chosen) <= tokens
    assert all(skill.name == "s1" or score(skill, message) for skill in chosen)
    assert chosen == select_skills(skills, message, ("s1",), max_active=most, max_tokens=tokens)
