#!/usr/bin/env python3
"""Real middleboxes in front of the embedded relay, seen through relayproof.

  middleboxes.py RELAYPROOF [LITELLM]

LiteLLM proxy and nginx (TLS, private CA) each stand in front of `relayproof simulate`. A spec must
pass through each, and an upstream that is cut in mid-stream must be reported as what the client
really saw. Loopback only. Exit 0 passed, 77 nothing could be run, 1 failed.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

RELAYPROOF = str(pathlib.Path(sys.argv[1]).resolve())
LITELLM = sys.argv[2] if len(sys.argv) > 2 else None
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
KEY = "sk-real-test-0123456789"
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="relayproof-real-"))
STARTED = []
passed, failed, skipped = [], [], []


def start(command, **options):
    log = open(FOLDER / f"process-{len(STARTED)}.log", "wb")
    child = subprocess.Popen(command, stdout=options.pop("stdout", log), stderr=log, start_new_session=True, **options)
    STARTED.append(child)
    return child


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, ready, child, seconds=120):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise RuntimeError(f"{what} ended with {child.returncode}")
        try:
            if ready():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"{what} did not answer within {seconds} s")


def listens(port):
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True


def answers(url):
    with urllib.request.urlopen(url, timeout=2) as answer:
        return answer.status == 200


def upstream(*faults):
    command = [RELAYPROOF, "simulate", "--first-token", "40ms", "--token-gap", "20ms", "--tokens", "24"]
    for fault in faults:
        command += ["--fault", fault]
    child = start(command, stdout=subprocess.PIPE, text=True)
    return child.stdout.readline().strip()


def spec(name, base_url, ca=None):
    text = f"""relayproof: 1
name: {name}
relays:
  - name: {name}
    base_url: {base_url}
    api_key: {{ env: REAL_TEST_KEY }}
    models: [test-model]
    timeouts: {{ first_token: 20s }}
"""
    if ca:
        text += f"    tls: {{ ca_file: {ca} }}\n"
    text += """sampling: { rate: 5/s, max_samples: 75 }
slos:
  - ttft.p90 < 15s
  - parse_success >= 90%
  - interruption < 10%
"""
    path = FOLDER / f"{name}.yaml"
    path.write_text(text)
    return path


def command(*words):
    environment = dict(os.environ, REAL_TEST_KEY=KEY, RELAYPROOF_API_KEY=KEY, RELAYPROOF_DIR=str(FOLDER / "runs"))
    done = subprocess.run([RELAYPROOF, *words], capture_output=True, text=True, env=environment, timeout=180)
    return done.returncode, done.stdout, done.stderr


def check(claim, holds, detail=""):
    (passed if holds else failed).append(claim)
    print(("ok      " if holds else "FAILED  ") + claim + ("" if holds else f"\n{detail}"), flush=True)


def run_spec(claim, path):
    code, out, err = command("run", str(path))
    check(claim, code == 0, f"exit {code}\n{out}\n{err}")


def probe(base_url, *more):
    code, out, err = command("probe", base_url, "--model", "test-model", "--format", "json", "--timeout", "total=30s", *more)
    try:
        return code, json.loads(out)
    except ValueError:
        return code, {"outcome": f"no JSON: {out} {err}"}


def certificates():
    """A private CA and a server certificate that it signed."""
    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=FOLDER)
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=private CA",
            "-keyout", "ca-key.pem", "-out", "ca.pem")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "request.pem")
    (FOLDER / "leaf.ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    openssl("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial",
            "-days", "2", "-extfile", "leaf.ext", "-out", "cert.pem")


def nginx(ports_to_upstreams):
    certificates()
    servers = ""
    for port, (base, buffering) in ports_to_upstreams.items():
        servers += f"""
    server {{
        listen 127.0.0.1:{port} ssl;
        http2 on;
        server_name localhost;
        ssl_certificate {FOLDER}/cert.pem;
        ssl_certificate_key {FOLDER}/key.pem;
        location / {{
            proxy_pass {base.removesuffix('/v1')};
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering {buffering};
        }}
    }}"""
    version = subprocess.run([NGINX, "-v"], capture_output=True, text=True).stderr
    number = tuple(int(part) for part in version.strip().rsplit("/", 1)[1].split(" ")[0].split(".")[:3])
    if number < (1, 25, 1):
        servers = servers.replace("        http2 on;\n", "").replace(" ssl;", " ssl http2;")
    conf = FOLDER / "nginx.conf"
    conf.write_text(f"""
daemon off;
worker_processes 1;
error_log {FOLDER}/nginx.err;
pid {FOLDER}/nginx.pid;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {FOLDER}/nginx-body;
    proxy_temp_path {FOLDER}/nginx-proxy;
    fastcgi_temp_path {FOLDER}/nginx-fastcgi;
    uwsgi_temp_path {FOLDER}/nginx-uwsgi;
    scgi_temp_path {FOLDER}/nginx-scgi;{servers}
}}
""")
    child = start([NGINX, "-c", str(conf), "-p", str(FOLDER)])
    for port in ports_to_upstreams:
        wait_for("nginx", lambda: listens(port), child)
    return FOLDER / "ca.pem"


def litellm(routes):
    """One LiteLLM proxy for each upstream: routes is {port: upstream base URL}."""
    for port, base in routes.items():
        config = FOLDER / f"litellm-{port}.yaml"
        config.write_text(f"""model_list:
  - model_name: test-model
    litellm_params:
      model: openai/test-model
      api_base: {base}
      api_key: unused
litellm_settings:
  num_retries: 0
general_settings:
  master_key: {KEY}
""")
        environment = dict(os.environ, LITELLM_MODE="PRODUCTION", LITELLM_LOCAL_MODEL_COST_MAP="True", NO_PROXY="127.0.0.1,localhost")
        environment.pop("DATABASE_URL", None)
        child = start([LITELLM, "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"], env=environment)
        wait_for("litellm", lambda: answers(f"http://127.0.0.1:{port}/health/liveliness"), child, 180)


def with_nginx(good, cut, reset):
    if not pathlib.Path(NGINX).exists():
        skipped.append("nginx: not installed")
        return
    ports = {free_port(): (good, "off"), free_port(): (cut, "off"), free_port(): (reset, "off")}
    ca = nginx(ports)
    good_port, cut_port, reset_port = ports
    run_spec("a spec passes through nginx over TLS with a private CA", spec("nginx", f"https://localhost:{good_port}/v1", ca))
    for transport in ("raw", "reqwest"):
        more = ["--ca-file", str(ca), "--transport", transport]
        code, seen = probe(f"https://localhost:{good_port}/v1", *more)
        check(f"nginx, {transport}: an honest stream is ok, with a TLS phase",
              code == 0 and seen.get("outcome") == "ok" and (seen["phases"]["tls_ms"] or 0) > 0, seen)
        for kind, port in (("a clean early end", cut_port), ("a reset", reset_port)):
            code, seen = probe(f"https://localhost:{port}/v1", *more)
            check(f"nginx, {transport}: {kind} upstream is a truncation for the client",
                  code == 1 and seen.get("outcome") == "truncated-no-terminator" and seen.get("interrupted") is True, seen)
    code, seen = probe(f"https://localhost:{good_port}/v1")
    check("nginx: without the CA it is a TLS failure", code == 1 and seen.get("outcome") == "tls-failure", seen)


def with_litellm(good, cut, reset):
    if not LITELLM or not pathlib.Path(LITELLM).exists():
        skipped.append("litellm: not installed")
        return
    routes = {free_port(): good, free_port(): cut, free_port(): reset}
    litellm(routes)
    good_port, cut_port, reset_port = routes
    run_spec("a spec passes through LiteLLM", spec("litellm", f"http://127.0.0.1:{good_port}/v1"))
    code, seen = probe(f"http://127.0.0.1:{good_port}/v1")
    check("LiteLLM: an honest stream is ok", code == 0 and seen.get("outcome") == "ok", seen)
    # LiteLLM turns an early but clean upstream end into a legal one: no single stream can show that,
    # the seal does.
    code, seen = probe(f"http://127.0.0.1:{cut_port}/v1", "--seal")
    check("LiteLLM: a clean early end upstream is never ok under a seal",
          code == 1 and seen.get("outcome") in ("masked-truncation", "truncated-no-terminator", "silent-truncation", "error-in-stream"), seen)
    print(f"        (it was {seen.get('outcome')})")
    code, seen = probe(f"http://127.0.0.1:{reset_port}/v1", "--seal")
    check("LiteLLM: a reset upstream is reported",
          code == 1 and seen.get("outcome") in ("error-in-stream", "truncated-no-terminator", "masked-truncation"), seen)
    print(f"        (it was {seen.get('outcome')})")


def main():
    good, cut, reset = upstream(), upstream("truncate=100%,after_tokens=5"), upstream("truncate_rst=100%,after_tokens=5")
    with_nginx(good, cut, reset)
    with_litellm(good, cut, reset)
    leaks = [str(path) for path in (FOLDER / "runs").rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    check("the key is in no file of the runs", not leaks, leaks)


try:
    main()
finally:
    for child in STARTED:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped{': ' if skipped else ''}{'; '.join(skipped)}")
if failed:
    print(f"logs are in {FOLDER}")
    sys.exit(1)
shutil.rmtree(FOLDER, ignore_errors=True)
sys.exit(77 if len(passed) <= 1 and skipped else 0)
