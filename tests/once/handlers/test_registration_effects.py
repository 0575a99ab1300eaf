"""Registration of effects: what does not add up is refused when it loads, with its remedy."""

from collections.abc import Iterator
from typing import Any

import pytest

from once import Call, Consumer, Policy, Transaction
from once.errors import RegistrationError
from tests.in_memory import Start
from tests.once.effects.provider import Charge, Paid
from tests.once.handlers.test_registration import fault, faults
from tests.once.support import Note, consumer_of

LIFETIME = 3600


def charge(request: Charge, call: Call) -> Paid:
    raise NotImplementedError


def find(request: Charge, call: Call) -> Paid | None:
    raise NotImplementedError


def complete(event: Note, outcome: Paid, tx: Transaction) -> None:
    raise NotImplementedError


def other(event: Note, outcome: Paid, tx: Transaction) -> None:
    raise NotImplementedError


def with_effect(
    function: Any = charge,
    *,
    name: Any = "charge",
    model: Any = Charge,
    policy: Any = Policy.PROVIDER_KEY,
    lifetime: int = LIFETIME,
    completion: Any = complete,
) -> Consumer:
    consumer = consumer_of()
    declare = consumer.effect(name, model, policy=policy, key_lifetime_seconds=lifetime)
    consumer.completes(declare(function))(completion)
    return consumer


def test_a_sound_effect_is_accepted() -> None:
    assert callable(with_effect().lambda_handler)


@pytest.mark.parametrize("policy", [Policy.AT_LEAST_ONCE, Policy.AT_MOST_ONCE])
def test_the_other_policies_need_no_lifetime(policy: Policy) -> None:
    assert callable(with_effect(policy=policy, lifetime=0).lambda_handler)


def test_registering_returns_the_effect_and_leaves_the_other_functions_as_they_were() -> None:
    consumer = consumer_of()
    effect = consumer.effect("charge", Charge, policy=Policy.AT_LEAST_ONCE)(charge)
    assert consumer.effects == {"charge": effect}
    assert effect.function is charge
    assert effect.looks_up(find) is find
    assert effect.look_up is find
    assert consumer.completes(effect)(complete) is complete


def test_there_is_no_default_for_the_policy() -> None:
    with pytest.raises(TypeError, match="policy"):
        consumer_of().effect("charge", Charge)  # type: ignore[call-arg]


@pytest.mark.parametrize("policy", [None, "at-least-once", 1])
def test_a_policy_that_is_none_is_refused(policy: Any) -> None:
    text = fault(with_effect(policy=policy, lifetime=0))
    assert text == "the effect 'charge' has no policy; state one of once.Policy"


@pytest.mark.parametrize(
    ("policy", "lifetime"),
    [
        (Policy.PROVIDER_KEY, 0),
        (Policy.PROVIDER_KEY, -1),
        (Policy.AT_LEAST_ONCE, LIFETIME),
        (Policy.AT_MOST_ONCE, LIFETIME),
    ],
)
def test_a_lifetime_belongs_to_a_provider_that_knows_keys(policy: Policy, lifetime: int) -> None:
    text = fault(with_effect(policy=policy, lifetime=lifetime))
    assert text.endswith("give it with Policy.PROVIDER_KEY, and with no other")


@pytest.mark.parametrize("name", ["", " ", "n" * 41, "überweisung\n"])
def test_an_effect_has_a_name_that_fits_into_a_key(name: str) -> None:
    assert "its name does not match" in fault(with_effect(name=name))


@pytest.mark.parametrize("model", [dict, int, None, "Charge", Charge("a", 1)])
def test_a_request_that_is_no_model_is_refused(model: Any) -> None:
    assert fault(with_effect(model=model)).endswith("is no model; give a msgspec.Struct")


def one_argument(request: Any) -> None: ...


def two_arguments(event: Any, outcome: Any) -> None: ...


def three_arguments(request: Any, call: Any, more: Any) -> None: ...


def four_arguments(event: Any, outcome: Any, tx: Any, more: Any) -> None: ...


async def asynchronous(*arguments: Any) -> None:
    raise NotImplementedError


def generator(*arguments: Any) -> Iterator[None]:
    yield


@pytest.mark.parametrize("function", [one_argument, three_arguments, asynchronous, generator])
@pytest.mark.parametrize("of", ["effect", "look-up"])
def test_what_cannot_be_called_with_a_request_and_a_call_is_refused(function: Any, of: str) -> None:
    consumer = with_effect(function if of == "effect" else charge)
    if of == "look-up":
        consumer.effects["charge"].looks_up(function)
    text = fault(consumer)
    assert function.__name__ in text
    assert text.endswith(
        "is called with a request and a Call; make it a plain function of these two arguments"
    )


@pytest.mark.parametrize("function", [two_arguments, four_arguments, asynchronous, generator])
def test_what_cannot_complete_an_effect_is_refused(function: Any) -> None:
    text = fault(with_effect(completion=function))
    assert function.__name__ in text
    assert text.endswith("make it a plain function of these three arguments")


def test_an_effect_that_nothing_completes_is_refused() -> None:
    consumer = consumer_of()
    consumer.effect("charge", Charge, policy=Policy.AT_LEAST_ONCE)(charge)
    assert fault(consumer) == (
        "the effect 'charge' is declared or completed alone; give it both, @consumer.effect and "
        "@consumer.completes"
    )


def test_a_completion_of_another_consumers_effect_is_refused() -> None:
    consumer = consumer_of()
    consumer.completes(with_effect().effects["charge"])(complete)
    assert "'charge' is declared or completed alone" in fault(consumer)


def test_a_completion_of_what_is_no_effect_is_refused() -> None:
    consumer = consumer_of()
    consumer.completes(charge)(complete)  # type: ignore[arg-type]
    first, second = faults(consumer)
    assert first.endswith("name an effect")
    assert "declared or completed alone" in second


def test_two_effects_of_one_name_are_refused() -> None:
    consumer = with_effect()
    consumer.effect("charge", Charge, policy=Policy.AT_LEAST_ONCE)(find)
    text = fault(consumer)
    assert text.endswith("find both handle 'the effect charge'; keep one of them")


def test_two_completions_of_one_effect_are_refused() -> None:
    consumer = with_effect()
    consumer.completes(consumer.effects["charge"])(other)
    text = fault(consumer)
    assert text.endswith("other both handle 'the outcome of charge'; keep one of them")


def test_effects_without_time_for_them_are_refused_where_the_settings_are_known(
    start: Start,
) -> None:
    consumer = with_effect()
    aws = start(consumer)
    with pytest.raises(RegistrationError) as raised:
        consumer.bound_to(aws.runtime)
    assert raised.value.faults == (
        "notes has effects, and no time for them; add effect_timeout_seconds= to "
        "the declaration of 'notes' in the CDK app",
    )


def test_effects_with_time_for_them_are_accepted(start: Start) -> None:
    consumer = with_effect()
    assert callable(consumer.bound_to(start(consumer, effect_timeout_seconds=1).runtime))


def test_all_faults_of_an_effect_are_reported_together() -> None:
    consumer = with_effect(one_argument, name="", model=dict, policy=None, completion=two_arguments)
    assert len(faults(consumer)) == 6


@pytest.mark.parametrize("policy", [Policy.AT_LEAST_ONCE, Policy.AT_MOST_ONCE])
def test_a_look_up_that_is_never_asked_is_refused(policy: Policy) -> None:
    effect = with_effect(policy=policy, lifetime=0).effects["charge"]
    effect.looks_up(lambda request, call: None)
    assert [*effect.faults()] == [
        f"the effect {effect.name!r}: a look-up serves Policy.PROVIDER_KEY alone; take it out"
    ]
