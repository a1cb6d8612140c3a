"""The deployment files are what the tools that read them expect."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from ipaddress import ip_address, ip_network
from itertools import combinations
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml
from tests.repo.deploy.tools import kustomized
from tests.servers.process import ServerProcess, free_port, program, until

from shoal import __version__
from shoal.cli.input.secret_files import VARIABLES
from shoal.model.settings import CrawlSettings
from shoal.redis_client import RedisClient, key_names

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


def test_passwords_reach_containers_in_files_and_only_those_that_they_need() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    named = set()
    for service in compose["services"].values():
        read = set(re.findall(r"/run/secrets/(\w+)", str(service)))
        if scripts := [volume for volume in service.get("volumes", []) if ".sh:" in volume]:
            script = (DEPLOY / scripts[0].partition(":")[0]).read_text()
            read |= set(re.findall(r"/run/secrets/(\w+)", script))
        assert read == set(service.get("secrets", []))
        named |= read
        for name, value in service.get("environment", {}).items():
            if any(word in name for word in ("PASSWORD", "SECRET", "STORE")):
                assert "/run/secrets/" in value, name
    assert named == compose["secrets"].keys()
    assert "${" not in (DEPLOY / "compose.yaml").read_text()


def test_the_secrets_of_compose_are_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    make = ["sh", str(DEPLOY / "secrets.sh"), str(folder)]
    subprocess.run(make, check=True, capture_output=True)
    first = {path.name: path.read_text() for path in folder.iterdir()}
    (folder / "redis").unlink()
    subprocess.run(make, check=True, capture_output=True)
    second = {path.name: path.read_text() for path in folder.iterdir()}

    secrets = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["secrets"]
    assert {f"./secrets/{name}" for name in first} == {one["file"] for one in secrets.values()}
    assert all(re.fullmatch(r"[0-9a-f]{48}", text) for text in (*first.values(), *second.values()))
    assert len(set(first.values())) == len(first)
    assert {name for name in first if first[name] != second[name]} == {"redis"}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "redis").stat().st_mode & 0o777 == 0o444
    assert "secrets/" in (ROOT / ".gitignore").read_text()


def test_what_compose_publishes_is_for_this_machine_only() -> None:
    for service in compose_services().values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_files_of_a_sink_in_compose_outlive_its_container() -> None:
    sink = compose_services()["sink"]
    assert sink["volumes"] == ["items:/data"]
    assert sink["hostname"]


@pytest.mark.parametrize("role", ["fetch", "parse", "sink"])
def test_workers_have_few_rights_and_time_to_drain(role: str) -> None:
    worker = compose_services()[role]
    assert worker["read_only"]
    assert worker["cap_drop"] == ["ALL"]
    assert worker["security_opt"] == ["no-new-privileges:true"]
    assert int(worker["stop_grace_period"].removesuffix("s")) > CrawlSettings().lease
    [pod] = [
        doc["spec"]["template"]["spec"]
        for doc in documents(kustomized(DEPLOY / "kubernetes"))
        if doc["kind"] == "Deployment" and doc["metadata"]["name"] == f"shoal-{role}"
    ]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["terminationGracePeriodSeconds"] > CrawlSettings().lease
    [container] = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["resources"]["limits"]["memory"]
    assert container["image"] == f"shoal:{__version__}"


def test_whatever_scales_by_itself_is_given_no_number() -> None:
    made = documents(kustomized(DEPLOY / "kubernetes"))
    scaled = {
        doc["spec"]["scaleTargetRef"]["name"] for doc in made if doc["kind"] == "HorizontalPodAutoscaler"
    }
    given = {doc["metadata"]["name"] for doc in made if "replicas" in doc.get("spec", {})}
    assert scaled
    assert not scaled & given


def test_the_files_that_the_image_is_built_from_are_enough(tmp_path: Path) -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for name in " ".join(copied).split():
        assert f"!{Path(name).parts[0]}" in ignored
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name)
        else:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    passes("pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    inside = set(ZipFile(wheel).namelist())
    assert {"shoal/cli/main.py", "shoal/examples/shop.py"} <= inside
    written = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.lua")}
    assert written <= inside


def test_redis_takes_its_password_from_a_file(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "secret").write_text("correct horse\n")
    script = (
        (DEPLOY / "redis.sh")
        .read_text()
        .replace("dir /data", f"dir {tmp_path}\nport {port}\nbind 127.0.0.1")
        .replace("/run/secrets/redis", str(tmp_path / "secret"))
    )
    server = ServerProcess(["sh", "-c", script], tmp_path)
    program("redis-server", "redis-server")
    server.start()
    try:
        asyncio.run(lets_in(server, f"redis://:correct%20horse@127.0.0.1:{port}"))
    finally:
        server.kill()


async def lets_in(server: ServerProcess, dsn: str) -> None:
    async def answers(_: ServerProcess) -> bool:
        async with RedisClient.open(dsn, advise=False) as store:
            return bool(await store.do(store.fleet_tag, "EXISTS", key_names.workers(store.fleet_tag)) == 0)

    await until(answers, server)


def compose_services() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return services


def documents(text: str) -> list[dict[str, Any]]:
    return [doc for doc in yaml.safe_load_all(text) if doc]


def test_workers_have_a_sandbox_or_do_not_start() -> None:
    for role in ("fetch", "parse", "sink"):
        assert compose_services()[role]["environment"]["SHOAL_PARSE_SANDBOX"] == "require"
    for pod in pods():
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert variables(pod)["SHOAL_PARSE_SANDBOX"] == "require"


def test_credentials_reach_pods_in_files_that_the_secret_has() -> None:
    [secret] = documents((DEPLOY / "kubernetes" / "secret.example.yaml").read_text())
    named = set()
    for pod in pods():
        [container] = pod["containers"]
        assert [source for source in container["envFrom"] if "secretRef" in source] == []
        [mount] = [one for one in container["volumeMounts"] if one["name"] == "secrets"]
        [volume] = [one for one in pod["volumes"] if one["name"] == "secrets"]
        assert volume["secret"]["secretName"] == secret["metadata"]["name"]
        assert not volume["secret"]["defaultMode"] & 0o007
        for name, value in variables(pod).items():
            if name.endswith("_FILE"):
                assert name.removesuffix("_FILE") in VARIABLES
                assert value.startswith(mount["mountPath"] + "/")
                named.add(value.rpartition("/")[2])
            else:
                assert name not in VARIABLES
    assert named == secret["stringData"].keys()
    [config] = [doc for doc in documents(kustomized(DEPLOY / "kubernetes")) if doc["kind"] == "ConfigMap"]
    assert not config["data"].keys() & set(VARIABLES)


METADATA = ("169.254.169.254", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "169.254.170.2")
INSIDE = ("10.96.0.1", "10.244.1.7", "172.17.0.1", "192.168.1.1", "127.0.0.1", "::1", "fd12::1", "fe80::1")


@pytest.mark.parametrize("role", ["fetch", "parse", "sink"])
def test_no_pod_reaches_metadata_or_cluster_addresses(role: str) -> None:
    blocks = [
        (rule, peer["ipBlock"])
        for doc in documents((DEPLOY / "kubernetes" / "network.yaml").read_text())
        if selects(doc["spec"]["podSelector"], role)
        for rule in doc["spec"]["egress"]
        for peer in rule["to"]
        if "ipBlock" in peer
    ]

    def reached(address: str) -> bool:
        return any(
            within(address, block["cidr"]) and not any(within(address, one) for one in block["except"])
            for _, block in blocks
        )

    assert not [address for address in (*METADATA, *INSIDE) if reached(address)]
    assert reached("93.184.215.14")
    assert reached("2606:4700::1111")
    if role != "fetch":
        assert all(rule["ports"] == [{"port": 443}] for rule, _ in blocks)


def test_in_compose_only_fetch_workers_reach_the_internet() -> None:
    networks = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["networks"]
    outside = {name for name, network in networks.items() if not (network or {}).get("internal")}
    reach = {name for name, service in compose_services().items() if outside & set(service["networks"])}
    assert reach == {"fetch", "prometheus", "grafana"}


def test_everything_that_runs_has_a_memory_limit() -> None:
    assert all(service["mem_limit"] for service in compose_services().values())
    assert all(pod["containers"][0]["resources"]["limits"]["memory"] for pod in pods())


def test_ci_asks_for_advisories_about_every_pinned_package() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    commands = " ".join(step.get("run", "") for step in jobs["advisories"]["steps"])
    assert "pip-audit --require-hashes" in commands
    audited = set(re.findall(r"[a-z]+", commands.partition("for file in")[2].partition(";")[0]))
    # The benchmarks' peers are not part of what users or developers install.
    assert audited == {path.stem for path in (ROOT / "requirements").glob("*.txt")} - {"bench"}


def pods() -> list[dict[str, Any]]:
    made = documents(kustomized(DEPLOY / "kubernetes"))
    return [doc["spec"]["template"]["spec"] for doc in made if doc["kind"] == "Deployment"]


def variables(pod: dict[str, Any]) -> dict[str, str]:
    [container] = pod["containers"]
    return {one["name"]: one["value"] for one in container["env"]}


def selects(selector: dict[str, Any], role: str) -> bool:
    labels = {"app.kubernetes.io/name": "shoal", "app.kubernetes.io/component": role}
    wanted = selector.get("matchLabels", {}).items()
    among = selector.get("matchExpressions", [])
    return wanted <= labels.items() and all(labels[one["key"]] in one["values"] for one in among)


def within(address: str, network: str) -> bool:
    found, block = ip_address(address), ip_network(network)
    return found.version == block.version and found in block
