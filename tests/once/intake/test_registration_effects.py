"""Registration of effects: a faulty declaration is refused at load, with its remedy."""

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from once import Call, Consumer, Policy, Transaction
from once.errors import RegistrationError
from tests.in_memory import Start
from tests.once.effects.provider import Charge, Paid
from tests.once.intake.test_registration import (
    answer,
    asynchronous,
    each,
    faults,
    four_arguments,
    generator,
    one_argument,
)
from tests.once.support import consumer_of

LIFETIME = 3600


def charge(request: Charge, call: Call) -> Paid:
    raise NotImplementedError


def find(request: Charge, call: Call) -> Paid | None:
    raise NotImplementedError


def complete(event: Any, outcome: Paid, tx: Transaction) -> None:
    raise NotImplementedError


def with_effect(
    function: Any = charge,
    *,
    look_up: Any = None,
    completions: tuple[Any, ...] = (complete,),
    **options: Any,
) -> Consumer:
    consumer = consumer_of()
    provider_key = {"policy": Policy.PROVIDER_KEY, "key_lifetime_seconds": LIFETIME}
    declaration: Any = {"name": "charge", "model": Charge, **provider_key, **options}
    effect = consumer.effect(**declaration)(function)
    if look_up:
        effect.looks_up(look_up)
    for completion in completions:
        consumer.completes(effect)(completion)
    return consumer


def keyless(policy: Any, **options: Any) -> Consumer:
    return with_effect(policy=policy, key_lifetime_seconds=0, **options)


def with_two_effects_of_one_name() -> Consumer:
    consumer = with_effect()
    consumer.effect("charge", Charge, policy=Policy.AT_LEAST_ONCE)(find)
    return consumer


def with_completion_only() -> Consumer:
    consumer = consumer_of()
    consumer.completes(with_effect().effects["charge"])(complete)
    return consumer


KEYLESS = [Policy.AT_LEAST_ONCE, Policy.AT_MOST_ONCE]
ALONE = (
    "the effect 'charge' is declared or completed alone; give it both, @consumer.effect and "
    "@consumer.completes"
)


@pytest.mark.parametrize(
    "consumer",
    [with_effect(), *map(keyless, KEYLESS)],
    ids=list(Policy),
)
def test_a_valid_effect_is_accepted(consumer: Consumer) -> None:
    assert callable(consumer.lambda_handler)


@each(
    {
        "the effect 'charge' has no policy; state one of once.Policy": [
            keyless(policy) for policy in (None, "at-least-once", 1)
        ],
        "*give it with Policy.PROVIDER_KEY, and with no other": [
            keyless(Policy.PROVIDER_KEY),
            with_effect(key_lifetime_seconds=-1),
            *(with_effect(policy=policy) for policy in KEYLESS),
        ],
        "*its name does not match*": [
            with_effect(name=name) for name in ("", " ", "n" * 41, "überweisung\n")
        ],
        "*is no model; give a msgspec.Struct": [
            with_effect(model=model) for model in (dict, int, None, "Charge", Charge("a", 1))
        ],
        **{
            f"*.{function.__name__} is called with a request and a Call; make it a plain function "
            "of these two arguments": [with_effect(function), with_effect(look_up=function)]
            for function in (one_argument, four_arguments, asynchronous, generator)
        },
        **{
            f"*.{function.__name__} is called with*make it a plain function of these three "
            "arguments": [with_effect(completions=(function,))]
            for function in (one_argument, four_arguments, asynchronous, generator)
        },
        ALONE: [with_effect(completions=()), with_completion_only()],
        "*find both handle 'the effect charge'; keep one of them": [with_two_effects_of_one_name()],
        "*answer both handle 'the outcome of charge'; keep one of them": [
            with_effect(completions=(complete, answer))
        ],
        "the effect 'charge': a look-up serves Policy.PROVIDER_KEY alone; take it out": [
            keyless(policy, look_up=find) for policy in KEYLESS
        ],
    }
)
def test_a_faulty_effect_is_refused(consumer: Consumer, pattern: str) -> None:
    [fault] = faults(consumer)
    assert fnmatchcase(fault, pattern)


def test_a_completion_of_a_plain_function_is_refused() -> None:
    consumer = consumer_of()
    consumer.completes(charge)(complete)  # type: ignore[arg-type]
    first, second = faults(consumer)
    assert first.endswith("name an effect")
    assert "declared or completed alone" in second


def test_all_faults_of_an_effect_are_reported_together() -> None:
    bad: dict[str, Any] = {"name": "", "model": dict, "policy": None}
    assert len(faults(with_effect(one_argument, **bad, completions=(one_argument,)))) == 6


def test_registering_returns_the_effect_and_leaves_the_other_functions_unchanged() -> None:
    consumer = consumer_of()
    effect = consumer.effect("charge", Charge, policy=Policy.AT_LEAST_ONCE)(charge)
    assert consumer.effects == {"charge": effect}
    assert effect.function is charge
    assert effect.looks_up(find) is find
    assert effect.look_up is find
    assert consumer.completes(effect)(complete) is complete


def test_a_policy_has_no_default() -> None:
    with pytest.raises(TypeError, match="policy"):
        consumer_of().effect("charge", Charge)  # type: ignore[call-arg]


def test_effects_need_a_time_in_the_settings(start: Start) -> None:
    consumer = with_effect()
    runtime = start(consumer).runtime
    with pytest.raises(RegistrationError) as raised:
        consumer.bound_to(runtime)
    assert raised.value.faults == (
        "notes has effects, and no time for them; add effect_timeout_seconds= to "
        "the declaration of 'notes' in the CDK app",
    )
    with_time = replace(runtime.settings, effect_timeout_seconds=1)
    assert callable(consumer.bound_to(replace(runtime, settings=with_time)))
