"""Prints a SAM template as JSON: as it is written, and as CloudFormation gets it."""

import json
import sys
import warnings

warnings.simplefilter("ignore")

from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.validator.validator import SamTemplateValidator
from samtranslator.yaml_helper import yaml_parse

path, code = sys.argv[1:]
with open(path) as file:
    written = yaml_parse(file)
# `sam deploy` puts the artifact into a bucket, and this in its place.
written["Globals"]["Function"]["CodeUri"] = code
plain = json.dumps(written)
validator = SamTemplateValidator()
# The schema has CloudFormation's limit of before; the linter knows that of today.
validator.validator.schema["properties"]["Parameters"]["maxProperties"] = 200
wrong = validator.get_errors(json.loads(plain))
if wrong:
    sys.exit(f"the template is not a SAM template: {wrong}")
translated = Translator({}, Parser()).translate(json.loads(plain), {}, feature_toggle=None)
json.dump({"written": json.loads(plain), "translated": translated}, sys.stdout)
