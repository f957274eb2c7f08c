"""Headers for webhooks, made by Stripe's own library.

Reads a JSON object a line, `secret`, `at` and `body`, and prints the `Stripe-Signature` header of each.
"""

import json
import sys

import stripe

for line in sys.stdin:
    case = json.loads(line)
    print(stripe.WebhookSignature.generate_signature_header(case["body"], case["secret"], timestamp=case["at"]))
