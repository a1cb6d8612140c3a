"""The deployment files are what the tools that read them expect."""

import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.deploy.tools import kustomized

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
MANIFESTS = [
    path for path in sorted((DEPLOY / "kubernetes").rglob("*.yaml")) if path.name != "kustomization.yaml"
]


def passes(*command: str | Path) -> None:
    tool = Path(sys.executable).parent / command[0]
    done = subprocess.run([tool, *command[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_is_built_as_the_linter_likes_it() -> None:
    passes("hadolint", DEPLOY / "Dockerfile")


def test_the_compose_file_follows_its_schema() -> None:
    passes("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_every_manifest_follows_the_schema_of_its_kind(manifest: Path) -> None:
    passes("kubernetes-validate", "--strict", manifest)


def test_the_manifests_of_all_roles_come_out_of_one(tmp_path: Path) -> None:
    made = kustomized(DEPLOY / "kubernetes")
    (tmp_path / "all.yaml").write_text(made)
    passes("kubernetes-validate", "--strict", tmp_path / "all.yaml")
    deployments = {doc["metadata"]["name"]: doc for doc in documents(made) if doc["kind"] == "Deployment"}
    assert deployments.keys() == {"shoal-fetch", "shoal-parse", "shoal-sink"}
    for name, deployment in deployments.items():
        [worker] = deployment["spec"]["template"]["spec"]["containers"]
        role = name.removeprefix("shoal-")
        assert worker["args"][:3] == ["worker", "--roles", role]
        # What the budgets and the scalers choose by is what the pods carry.
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert labels["app.kubernetes.io/component"] == role


def test_panels_of_the_dashboard_have_their_own_ids_and_places() -> None:
    panels = json.loads((DEPLOY / "grafana" / "fleet.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or apart


def test_no_password_is_in_a_deployment_file() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if any(word in name for word in ("PASSWORD", "SECRET", "DSN")):
                assert "${" in value, name


def documents(text: str) -> list[dict[str, Any]]:
    return [doc for doc in yaml.safe_load_all(text) if doc]
