"""Deploys the template, as `sam deploy` would: the artifact goes into a bucket, the translated template becomes a stack.

Reads from standard input what to deploy, and prints the names of what was made."""

import json
import sys
import uuid

import boto3
from botocore.config import Config

asked = json.load(sys.stdin)
config = Config(retries={"max_attempts": 0}, read_timeout=120)


def client(service):
    return boto3.client(
        service,
        endpoint_url=asked["endpoint"],
        region_name="eu-central-1",
        aws_access_key_id=asked["key"],
        aws_secret_access_key=asked["secret"],
        config=config,
    )


s3, cloudformation = client("s3"), client("cloudformation")
# Buckets have one name for all accounts.
bucket = f"artifacts-{uuid.uuid4()}"
s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
with open(asked["artifact"], "rb") as file:
    s3.put_object(Bucket=bucket, Key="bootstrap.zip", Body=file)
template = asked["template"]
# ministack knows no alarms on expressions, and refuses the stack for them.
alarms = [name for name, resource in template["Resources"].items() if resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"]]
for name in alarms:
    del template["Resources"][name]
for name, resource in template["Resources"].items():
    for policy in resource["Properties"].get("Policies", []) if resource["Type"] == "AWS::IAM::Role" else []:
        for statement in policy["PolicyDocument"]["Statement"]:
            left = [action for action in statement.get("Action", []) if action != asked["without"]["action"]]
            # ministack takes a statement without actions for one with all of them.
            if name == asked["without"]["role"] and left:
                statement["Action"] = left
            # On AWS the right to send a message is the right to send several; ministack has a right of its own for that.
            if statement.get("Action") == ["sqs:SendMessage"]:
                statement["Action"].append("sqs:SendMessageBatch")
    if resource["Type"] == "AWS::Lambda::Function":
        resource["Properties"]["Code"] = {"S3Bucket": bucket, "S3Key": "bootstrap.zip"}
s3.put_object(Bucket=bucket, Key="template.json", Body=json.dumps(template).encode())
cloudformation.create_stack(
    StackName=asked["stack"],
    TemplateURL=f"{asked['endpoint']}/{bucket}/template.json",
    Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in asked["parameters"].items()],
    Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
)
try:
    cloudformation.get_waiter("stack_create_complete").wait(StackName=asked["stack"], WaiterConfig={"Delay": 1, "MaxAttempts": 120})
except Exception as error:
    for event in cloudformation.describe_stack_events(StackName=asked["stack"])["StackEvents"]:
        if "FAILED" in event["ResourceStatus"]:
            print(event["LogicalResourceId"], event.get("ResourceStatusReason"), file=sys.stderr)
    sys.exit(f"the stack was not made: {error}")
made = {}
for page in cloudformation.get_paginator("list_stack_resources").paginate(StackName=asked["stack"]):
    made.update({one["LogicalResourceId"]: one["PhysicalResourceId"] for one in page["StackResourceSummaries"]})
stack = cloudformation.describe_stacks(StackName=asked["stack"])["Stacks"][0]
outputs = {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", [])}
json.dump({"resources": made, "outputs": outputs}, sys.stdout)
