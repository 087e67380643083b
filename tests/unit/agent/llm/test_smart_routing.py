from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.conversation.prompt import News, user_text
from agent.llm.base import Completion, CompletionRequest, ToolDefinition
from agent.llm.complexity import Tier, dimensions, score, tier_of
from agent.llm.errors import BudgetExceeded, ContextTooLong, LLMError, ModelUnavailable, TransientError
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.llm.smart_routing import Route, SmartRoutingProvider, is_uncertain, route_of
from agent.model.tool_call import ToolCall
from tests.support.builders import NOON, make_message
from tests.support.scripted_llm import ScriptedLLM, ScriptStep, say

TOOL = ToolDefinition("get_time", "Tells the time.", {"type": "object"})
HARD = (
    "First analyze the architecture of our distributed database, then design a new schema for exactly 500 GB of data. "
    "Why does the code of the previous one deadlock, and how should we implement it? Search the files in /var/lib, "
    "compare the trade-offs, and prove that the algorithm terminates although credentials may be deleted."
)
CASCADED = "[tier:pro] hello"


def ask(
    *messages: ChatMessage | str, tools: tuple[ToolDefinition, ...] = (), model: str | None = None
) -> CompletionRequest:
    told = tuple(UserText(each) if isinstance(each, str) else each for each in messages)
    return CompletionRequest("", told, tools=tools, model=model)


def build(
    primary: tuple[ScriptStep, ...] = (), cheap: tuple[ScriptStep, ...] = ()
) -> tuple[SmartRoutingProvider, ScriptedLLM, ScriptedLLM]:
    big, small = ScriptedLLM(primary, model="big", name="one"), ScriptedLLM(cheap, model="small", name="two")
    return SmartRoutingProvider(big, small), big, small


# -- the score ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "tier"),
    [
        ("Hello there!", Tier.FLASH),
        ("thank you so much", Tier.FLASH),
        ("What is the capital of France?", Tier.FLASH),
        ("Compare Rust and Python for a web API, and explain why.", Tier.STANDARD),
        ("Compare Rust and Python for a distributed database, step by step. Which code is better, and why?", Tier.PRO),
        (HARD, Tier.FRONTIER),
    ],
)
def test_harder_questions_have_higher_tiers(text: str, tier: Tier) -> None:
    assert tier_of(text) is tier


@pytest.mark.parametrize(
    ("text", "tier"),
    [
        ("do a security audit", Tier.FRONTIER),
        ("is there a vulnerability?", Tier.FRONTIER),
        ("deploy this to production", Tier.PRO),
        ("[tier:flash] do a security audit", Tier.FLASH),
        ("hi [Tier: Frontier]", Tier.FRONTIER),
        ("[tier:unheard-of] hi", Tier.FLASH),
    ],
)
def test_some_words_decide_whatever_the_score_and_a_hint_wins(text: str, tier: Tier) -> None:
    assert tier_of(text) is tier


def test_the_weights_of_the_thirteen_dimensions_sum_to_a_hundred() -> None:
    parts = dimensions("")

    assert len(parts) == 13
    assert sum(weight for weight, _ in parts) == 100


def test_a_text_of_520_characters_has_full_points_for_its_length() -> None:
    assert dimensions("x" * 120)[0] == (12, 20.0)
    assert dimensions("x" * 520)[0] == dimensions("x" * 9000)[0] == (12, 100.0)


def test_dimensions_that_stand_out_together_count_more() -> None:
    one, two, three = "therefore", "therefore sql", "therefore sql poem"

    assert [score(text) for text in (one, two, three)] == [7, round(12 * 1.15), round(15.5 * 1.3)]


def test_each_dimension_is_capped() -> None:
    assert score("therefore " * 2) == score("therefore " * 3) == 14
    assert score("sql python") == score("sql python ``` ```") == 10


@given(st.text(max_size=300))
def test_every_text_has_a_score_from_0_to_100(text: str) -> None:
    assert 0 <= score(text) <= 100
    assert all(0 <= points <= 100 for _, points in dimensions(text))
    assert tier_of(text) in Tier


# -- the route ---------------------------------------------------------------------------------------------------
def test_the_context_line_and_the_notes_in_front_of_a_persons_words_do_not_count() -> None:
    message = make_message("hello")

    told = user_text([message], NOON, ZoneInfo("Europe/Berlin"), News(notes=HARD))

    assert route_of(ask(told)) is Route.CHEAP


def test_a_hint_on_a_line_of_its_own_is_read() -> None:
    told = user_text([make_message("[tier:frontier]\nhello")], NOON, ZoneInfo("Europe/Berlin"))

    assert route_of(ask(told)) is Route.PRIMARY


def test_only_the_newest_words_count() -> None:
    assert route_of(ask(HARD, AssistantTurn("Done."), "thanks")) is Route.CHEAP


CALL = ToolCall("c", "get_time")


@pytest.mark.parametrize(
    "request_",
    [
        ask("hi", tools=(TOOL,)),
        ask("hi", model="big"),
        ask("hi", AssistantTurn("", (CALL,)), ToolResult("c", "get_time", "12:00")),
        ask("hi", AssistantTurn("", (CALL,)), ToolResult("c", "get_time", "12:00"), "Answer now."),
        ask(HARD),
        ask(),
    ],
    ids=["tools", "a certain model", "results", "note behind results", "hard", "nothing"],
)
async def test_the_primary_answers_what_is_its_own(request_: CompletionRequest) -> None:
    provider, _, small = build(primary=(say("Hello"),))

    completion = await provider.complete(request_)

    assert completion.model == "big"
    assert small.requests == []


async def test_the_cheap_model_answers_easy_questions_as_a_stream() -> None:
    provider, big, _ = build(cheap=(say("I do not know, but hello"),))
    heard: list[str] = []

    completion = await provider.complete(ask("hi"), heard.append)

    assert completion.model == "small"
    assert "".join(heard) == completion.text
    assert len(heard) > 1
    assert big.requests == []


async def test_an_accepted_answer_of_the_cascade_is_shown_once_it_is_accepted() -> None:
    provider, big, _ = build(cheap=(say("Good morning to you"),))
    heard: list[str] = []

    completion = await provider.complete(ask(CASCADED), heard.append)

    assert completion.model == "small"
    assert heard == ["Good morning to you"]
    assert big.requests == []


async def test_an_uncertain_answer_of_the_cascade_is_never_shown() -> None:
    provider, _, _ = build(primary=(say("42"),), cheap=(say("I'm not sure."),))
    heard: list[str] = []

    completion = await provider.complete(ask(CASCADED), heard.append)

    assert completion.model == "big"
    assert heard == ["42"]


@pytest.mark.parametrize("fault", [TransientError("x"), ModelUnavailable("x"), ContextTooLong("x")])
@pytest.mark.parametrize("question", ["hi", CASCADED])
async def test_the_primary_answers_where_the_cheap_model_fails(fault: LLMError, question: str) -> None:
    provider, _, _ = build(primary=(say("Hello"),), cheap=(fault,))

    assert (await provider.complete(ask(question))).model == "big"


async def test_streamed_text_of_a_failing_cheap_model_is_taken_back() -> None:
    heard: list[str] = []

    def half(request: CompletionRequest) -> Completion:
        heard.append("Hel")
        raise TransientError("broke off")

    provider, _, _ = build(primary=(say("Hello"),), cheap=(half,))

    await provider.complete(ask("hi"), heard.append)

    assert heard == ["Hel", "", "Hello"]


async def test_a_used_up_budget_is_not_tried_a_second_time() -> None:
    provider, big, _ = build(primary=(say("Hello"),), cheap=(BudgetExceeded("used up"),))

    with pytest.raises(BudgetExceeded):
        await provider.complete(ask("hi"))

    assert big.requests == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "<think>hmm</think>",
        "I'm not sure.",
        "I\N{RIGHT SINGLE QUOTATION MARK}m not sure.",
        "I am NOT sure",
        "I don't know that.",
        "We do not know",
        "I was unable to find it",
        "I cannot tell",
        "I can't",
        "That is beyond my capabilities.",
        "beyond my ability",
        "not able to",
        "I don't have enough data",
        "I need more context",
        "need more information",
        "Could you clarify?",
        "Could you provide more details?",
        "I am not confident",
    ],
)
def test_answers_that_do_not_answer_are_uncertain(text: str) -> None:
    assert is_uncertain(text)


@pytest.mark.parametrize("text", ["The answer is 42.", "<think>I don't know</think>It is 42.", "Canned tuna, cannoli."])
def test_answers_that_answer_are_not(text: str) -> None:
    assert not is_uncertain(text)


async def test_is_what_the_primary_is_and_closes_both() -> None:
    provider, big, small = build()
    small.supports_tools = False

    await provider.warm_up()
    await provider.close()

    assert (provider.name, provider.model, provider.context_limit, provider.supports_tools) == (
        "one",
        "big",
        100_000,
        True,
    )
    assert await provider.list_models() == ("big",)
    assert (big.warm, small.warm) == (True, False)
    assert (big.closed, small.closed) == (True, True)
