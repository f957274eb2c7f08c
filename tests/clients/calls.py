"""Calls a server with the generated client: calls.py FOLDER BASE USER SUBSCRIPTION. Prints one JSON object."""

import json
import sys

folder, base, user, subscription = sys.argv[1:]
sys.path.insert(0, folder)

from client import Client
from client.api.billing import explain_user, get_subscription, list_subscription_history, list_subscriptions
from client.api.entitlements import get_access, get_credits, list_credit_movements
from client.api.server import get_health, get_readiness
from client.api.usage import usage_count_action, usage_get_user
from client.models.count_action import CountAction

server = Client(base_url=base)
calls = {
    "get_health": get_health.sync_detailed(client=server),
    "get_readiness": get_readiness.sync_detailed(client=server),
    "list_subscriptions": list_subscriptions.sync_detailed(user, client=server),
    "get_subscription": get_subscription.sync_detailed(user, subscription, client=server),
    "list_subscription_history": list_subscription_history.sync_detailed(user, subscription, client=server),
    "explain_user": explain_user.sync_detailed(user, client=server),
    "get_access": get_access.sync_detailed(user, client=server),
    "get_credits": get_credits.sync_detailed(user, client=server),
    "list_credit_movements": list_credit_movements.sync_detailed(user, client=server),
    "usage_count_action": usage_count_action.sync_detailed(
        user, "simulations", client=server, body=CountAction.from_dict({"action_type": "run"})
    ),
    "usage_get_user": usage_get_user.sync_detailed(user, client=server),
    "missing": get_subscription.sync_detailed(user, "none", client=server),
}
print(json.dumps({
    name: {"status": response.status_code.value, "type": type(response.parsed).__name__,
           "body": response.parsed.to_dict()}
    for name, response in calls.items()
}))
