"""Cases for our check of the Stripe-Signature header, each with what Stripe's own library thinks of it.

usage: signatures.py SEED ROUNDS

Prints a JSON object a line: `kind`, `header`, `body`, `secrets`, `now` and `believed`. The library takes one secret at a time, so a
case is believed when it is believed under any of its secrets. Its clock is set to the case's `now`.
"""

import json
import random
import sys
from unittest import mock

import stripe

TOLERANCE = stripe.Webhook.DEFAULT_TOLERANCE


def main(seed, rounds):
    rng = random.Random(seed)
    for _ in range(rounds):
        for kind, make in KINDS.items():
            case = make(Signed(rng))
            believed = any(believes(case, secret) for secret in case["secrets"])
            print(json.dumps({"kind": kind, **case, "believed": believed}))


def believes(case, secret):
    with mock.patch("stripe._webhook.time.time", return_value=case["now"]):
        try:
            event = stripe.Webhook.construct_event(case["body"].encode(), case["header"], secret)
        except stripe.SignatureVerificationError:
            return False
    assert event.id.startswith("evt_")
    return True


class Signed:
    """A body, when and with what it was signed, and the library's own header for it."""

    def __init__(self, rng):
        self.rng = rng
        self.at = rng.randrange(1_600_000_000, 2_000_000_000)
        self.secret = new_secret(rng)
        self.body = new_body(rng, self.at)
        self.header = self.sign(self.secret)

    def sign(self, secret, at=None, body=None):
        at = self.at if at is None else at
        return stripe.WebhookSignature.generate_signature_header(body or self.body, secret, timestamp=at)

    def signature(self, secret=None):
        return self.sign(secret or self.secret).split("v1=")[1]

    def other(self):
        return self.signature(new_secret(self.rng))

    def case(self, **changes):
        late = self.rng.choice([0, 1, 17, TOLERANCE])
        return {"header": self.header, "body": self.body, "secrets": [self.secret], "now": self.at + late, **changes}


def new_secret(rng):
    return "whsec_" + "".join(rng.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=", k=rng.choice([8, 32, 70])))


def new_body(rng, at):
    event = {
        "id": f"evt_{rng.getrandbits(64):016x}",
        "object": "event",
        "type": rng.choice(["invoice.paid", "refund.created", "customer.subscription.updated"]),
        "created": at,
        "data": {"object": {"id": "in_1", "description": rng.choice(["", "plain", "zwölf Taler, 十二 🪙", "a\nb\\c\"d", "x" * 5000])}},
    }
    return json.dumps(event, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 2]))


def tampered(signed):
    place = signed.rng.randrange(len(signed.body))
    # A space somewhere between two tokens, or another id: still JSON, so that only the signature can refuse it.
    changed = signed.rng.choice([signed.body + " ", signed.body.replace("evt_", "evt_0", 1), signed.body.replace(": ", ":  ", 1)])
    return signed.case(body=changed if changed != signed.body else signed.body + "\n" * (1 + place % 3))


def cut(signed):
    whole = signed.signature()
    return signed.case(header=f"t={signed.at},v1={whole[: signed.rng.randrange(len(whole))]}")


def flipped(signed):
    whole = list(signed.signature())
    place = signed.rng.randrange(len(whole))
    whole[place] = signed.rng.choice([digit for digit in "0123456789abcdef" if digit != whole[place]])
    return signed.case(header=f"t={signed.at},v1={''.join(whole)}")


KINDS = {
    "as the library signs": lambda s: s.case(),
    "another secret": lambda s: s.case(secrets=[new_secret(s.rng)]),
    "a changed body": tampered,
    "a changed digit": flipped,
    "a cut signature": cut,
    "another time than was signed": lambda s: s.case(header=f"t={s.at + 1},v1={s.signature()}"),
    "just in time": lambda s: s.case(now=s.at + TOLERANCE),
    "just too late": lambda s: s.case(now=s.at + TOLERANCE + 1),
    "long ago": lambda s: s.case(now=s.at + s.rng.randrange(TOLERANCE + 1, 10_000_000)),
    "two v1, the first is right": lambda s: s.case(header=f"{s.header},v1={s.other()}"),
    "two v1, the second is right": lambda s: s.case(header=f"t={s.at},v1={s.other()},v1={s.signature()}"),
    "two v1, none is right": lambda s: s.case(header=f"t={s.at},v1={s.other()},v1={s.other()}"),
    "two secrets, the old one signed": lambda s: s.case(secrets=[new_secret(s.rng), s.secret]),
    "two secrets, the new one signed": lambda s: s.case(secrets=[s.secret, new_secret(s.rng)]),
    "two secrets, none signed": lambda s: s.case(secrets=[new_secret(s.rng), new_secret(s.rng)]),
    "two of each": lambda s: s.case(header=f"t={s.at},v1={s.other()},v1={s.signature()}", secrets=[new_secret(s.rng), s.secret]),
    "a blank secret": lambda s: s.case(header=s.sign(" "), secrets=[" ", ""]),
    "with a v0": lambda s: s.case(header=f"{s.header},v0={s.other()}"),
    "only a v0": lambda s: s.case(header=f"t={s.at},v0={s.signature()}"),
    "the other way round": lambda s: s.case(header=f"v1={s.signature()},t={s.at}"),
    "a space after the comma": lambda s: s.case(header=f"t={s.at}, v1={s.signature()}"),
    "capital digits": lambda s: s.case(header=f"t={s.at},v1={s.signature().upper()}"),
    "an empty v1 and a right one": lambda s: s.case(header=f"t={s.at},v1=,v1={s.signature()}"),
    "not hex": lambda s: s.case(header=f"t={s.at},v1={'z' * 64}"),
    "no time": lambda s: s.case(header=f"v1={s.signature()}"),
    "no signature": lambda s: s.case(header=f"t={s.at}"),
    "no number": lambda s: s.case(header=f"t=now,v1={s.signature()}"),
    "no header": lambda s: s.case(header=""),
    # Where we are stricter on purpose: a time in the future, and what Stripe never writes.
    "stricter: the future": lambda s: s.case(now=s.at - TOLERANCE - s.rng.randrange(1, 1000)),
    "stricter: two times": lambda s: s.case(header=f"t={s.at},t={s.at - 1},v1={s.signature()}"),
    "stricter: a space before the time": lambda s: s.case(header=f"t= {s.at},v1={s.signature()}"),
    "stricter: more after the signature": lambda s: s.case(header=f"t={s.at},v1={s.signature()}=x"),
}

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
