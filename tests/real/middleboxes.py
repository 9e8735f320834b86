#!/usr/bin/env python3
"""Real middleboxes in front of the embedded relay, seen through relayproof.

  middleboxes.py RELAYPROOF [LITELLM]

LiteLLM proxy and nginx (TLS, private CA) each stand in front of `relayproof simulate`. A spec must
pass through each, and an upstream that fails in one of many ways must be reported as what the client
really saw: the class that the bytes deserve, and the seal where the bytes hide everything. nginx is
also tried as it comes, with its buffers, and as it is often set, with gzip.
Loopback only. Exit 0 passed, 77 nothing could be run, 1 failed.
"""
import json
import os
import pathlib
import random
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
    child.log = pathlib.Path(log.name)
    STARTED.append(child)
    return child


def free_port():
    """A port that nobody listens on, from below those that systems give to whoever asks for any.

    LiteLLM takes it half a minute later, when a port of that range may long be somebody's.
    """
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def wait_for(what, ready, child, seconds=120):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if child.poll() is not None:
            said = child.log.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"{what} ended with {child.returncode}:\n{said}")
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


def upstream(*faults, tokens=24):
    command = [RELAYPROOF, "simulate", "--first-token", "40ms", "--token-gap", "20ms", "--tokens", str(tokens)]
    for fault in faults:
        command += ["--fault", fault]
    child = start(command, stdout=subprocess.PIPE, text=True)
    return child.stdout.readline().strip()


def spec(name, base_url, ca=None, protocol="openai-chat", rate="5/s", slow_s=15):
    text = f"""relayproof: 1
name: {name}
relays:
  - name: {name}
    base_url: {base_url}
    protocol: {protocol}
    api_key: {{ env: REAL_TEST_KEY }}
    models: [test-model]
    timeouts: {{ headers: {slow_s + 5}s, first_token: {slow_s + 5}s }}
"""
    if ca:
        text += f"    tls: {{ ca_file: {ca} }}\n"
    text += f"sampling: {{ rate: {rate}, max_samples: 75 }}\n"
    text += f"""slos:
  - ttft.p90 < {slow_s}s
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


def probe(base_url, *more, model="test-model"):
    code, out, err = command("probe", base_url, "--model", model, "--format", "json",
                             "--timeout", "first_token=30s,idle=5s,total=60s", *more)
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


def nginx(locations):
    """One server for each port: {port: (upstream base URL, lines of its location, whether over TLS)}."""
    certificates()
    servers = ""
    for port, (base, settings, tls) in locations.items():
        listen = f"""
        listen 127.0.0.1:{port} ssl;
        http2 on;
        ssl_certificate {FOLDER}/cert.pem;
        ssl_certificate_key {FOLDER}/key.pem;""" if tls else f"""
        listen 127.0.0.1:{port};"""
        servers += f"""
    server {{{listen}
        server_name localhost;
        location / {{
            proxy_pass {base.removesuffix('/v1')};
            {settings}
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
    for port in locations:
        wait_for("nginx", lambda: listens(port), child)
    return FOLDER / "ca.pem"


def litellm(models):
    """A LiteLLM proxy with one model for each upstream: {name: (provider, upstream base URL)}."""
    port, config = free_port(), FOLDER / "litellm.yaml"
    listed = "".join(f"""
  - model_name: {name}
    litellm_params: {{ model: {provider}/{name}, api_base: "{base}", api_key: unused }}"""
                     for name, (provider, base) in models.items())
    config.write_text(f"""model_list:{listed}
litellm_settings: {{ num_retries: 0 }}
router_settings: {{ disable_cooldowns: true }}
general_settings: {{ master_key: {KEY} }}
""")
    environment = dict(os.environ, LITELLM_MODE="PRODUCTION", LITELLM_LOCAL_MODEL_COST_MAP="True", NO_PROXY="127.0.0.1,localhost")
    environment.pop("DATABASE_URL", None)
    # It looks for modules of Python two folders above where it is started: nobody else's, then.
    place = FOLDER / "litellm" / "here"
    place.mkdir(parents=True)
    command = [LITELLM, "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
    child = start(command, env=environment, cwd=place)
    wait_for("litellm", lambda: answers(f"http://127.0.0.1:{port}/health/liveliness"), child, 300)
    # The first call of each route loads modules for many seconds.
    base, places = f"http://127.0.0.1:{port}/v1", {}
    for protocol in ("openai-chat", "openai-responses", "anthropic-messages"):
        place = places[protocol] = base.removesuffix("/v1") if protocol == "anthropic-messages" else base
        wait_for(f"litellm in {protocol}", lambda: probe(place, "--protocol", protocol)[0] == 0, child, 240)
    return places


def holds(seen, outcome, detail=None, party=None):
    """Whether a probe's outcome, its leading finding and its party are these."""
    details = [finding.get("detail") for finding in seen.get("findings", []) if finding["class"] == outcome]
    return (seen.get("outcome") == outcome
            and (detail is None or detail in details)
            and (party is None or seen.get("attribution") == party))


def with_nginx(good, long, cut, reset):
    if not pathlib.Path(NGINX).exists():
        skipped.append("nginx: not installed")
        return
    good_port, cut_port, reset_port, plain_port, roomy_port, gzip_port, asking_port = (free_port() for _ in range(7))
    straight = 'proxy_buffering off; proxy_http_version 1.1; proxy_set_header Connection "";'
    gzip = straight + " gzip on; gzip_types *; gzip_proxied any; gzip_min_length 0;"
    # This one asks the one before for gzip, whatever its own client asked for.
    asking = straight + " proxy_set_header Accept-Encoding gzip; proxy_ssl_verify off;"
    # nginx asks in HTTP/1.0 if not told otherwise, and then holds bytes until a buffer is full.
    plain = "proxy_http_version 1.0;"
    roomy = plain + " proxy_buffer_size 16k; proxy_buffers 8 16k; proxy_busy_buffers_size 32k;"
    ca = nginx({good_port: (good, straight, True), cut_port: (cut, straight, True), reset_port: (reset, straight, True),
                plain_port: (long, plain, False), roomy_port: (good, roomy, False), gzip_port: (good, gzip, True),
                asking_port: (f"https://127.0.0.1:{gzip_port}/v1", asking, True)})
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
        code, seen = probe(f"http://localhost:{plain_port}/v1", *more)
        check(f"nginx as it comes, {transport}: its buffers let a long answer go in big blocks, and that is said",
              code == 1 and holds(seen, "not-streamed", "big blocks with long pauses between"), seen)
        code, seen = probe(f"http://localhost:{roomy_port}/v1", *more)
        check(f"nginx with room for the whole answer, {transport}: it comes in one burst, and that is said",
              code == 1 and holds(seen, "not-streamed", "the whole answer in one burst", "relay-gateway"), seen)
        code, seen = probe(f"https://localhost:{gzip_port}/v1", *more)
        check(f"nginx with gzip on, {transport}: nobody asked for it, so the stream is ok",
              code == 0 and seen.get("outcome") == "ok", seen)
        code, seen = probe(f"https://localhost:{asking_port}/v1", *more)
        check(f"nginx that asks for gzip itself, {transport}: a coding that the client never asked for",
              code == 1 and holds(seen, "protocol-violation", "a coding that was not asked for", "relay-middleware"), seen)
    code, seen = probe(f"https://localhost:{good_port}/v1")
    check("nginx: without the CA it is a TLS failure", code == 1 and seen.get("outcome") == "tls-failure", seen)


# What LiteLLM makes of each fault: the outcome without a seal, and with one. Where both are the same, its
# bytes say it; where only the seal does, it has invented an ending.
AFTER_5 = "=100%,after_tokens=5"
LITELLM_MAKES = {
    "truncate" + AFTER_5: ("ok", "masked-truncation"),
    "fake_done" + AFTER_5: ("ok", "masked-truncation"),
    "drop_seal=100%": ("ok", "masked-truncation"),
    "truncate_fin" + AFTER_5: ("error-in-stream", "error-in-stream"),
    "truncate_rst" + AFTER_5: ("error-in-stream", "error-in-stream"),
    "error_in_stream" + AFTER_5: ("error-in-stream", "error-in-stream"),
    "malformed_json" + AFTER_5: ("error-in-stream", "error-in-stream"),
    "split_json" + AFTER_5: ("error-in-stream", "error-in-stream"),
    "stall" + AFTER_5: ("stalled", "stalled"),
    "status=100%,code=503": ("http-error", "http-error"),
    "status=100%,code=429": ("http-error", "http-error"),
    "fake_200=100%": ("empty-answer", "empty-answer"),
    "fake_200_html=100%": ("empty-answer", "empty-answer"),
    "fake_200_empty=100%": ("empty-answer", "empty-answer"),
    "error_as_content=100%": ("error-as-content", "error-as-content"),
    # It puts its own label on every answer.
    "wrong_model=100%": ("ok", "ok"),
}


def with_litellm(good):
    if not LITELLM or not pathlib.Path(LITELLM).exists():
        skipped.append("litellm: not installed")
        return
    named = {fault: f"upstream-{number}" for number, fault in enumerate(LITELLM_MAKES)}
    models = {name: ("openai", upstream(fault)) for fault, name in named.items()}
    places = litellm({"test-model": ("openai", good), **models})
    base = places["openai-chat"]
    for protocol, place in places.items():
        # What is asked is that it passes, not how fast Python is on a busy machine.
        run_spec(f"a spec in {protocol} passes through LiteLLM",
                 spec(f"litellm-{protocol}", place, protocol=protocol, rate="2/s", slow_s=85))
    for seal in ([], ["--seal"]):
        code, seen = probe(base, *seal)
        check(f"LiteLLM{', sealed' if seal else ''}: an honest stream is ok", code == 0 and seen.get("outcome") == "ok", seen)
    for fault, (unsealed, sealed) in LITELLM_MAKES.items():
        for seal, outcome in (([], unsealed), (["--seal"], sealed)):
            _, seen = probe(base, *seal, model=named[fault])
            check(f"LiteLLM over {fault}{', sealed' if seal else ''}: {outcome}", seen.get("outcome") == outcome, seen)


def main():
    good = upstream()
    with_nginx(good, upstream(tokens=64), upstream("truncate=100%,after_tokens=5"), upstream("truncate_rst=100%,after_tokens=5"))
    with_litellm(good)
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
