#!/usr/bin/env python3
"""Official Python SDKs, one of them a process: each job is one call in the SDK's plain loop.

Reads {"limit_s": S, "jobs": [{"id", "protocol", "base", "model", "usage", "max_tokens",
"stream", "strict"}]} from stdin and writes one JSON line a job: its id, the answer ("accepts",
"raises NAME" or "hangs"), the text, and the finish reason as the SDK shows it. With "strict", the SDK
checks every object that it is sent against its own types.
"""
import json
import os
import queue
import sys
import threading
import warnings

AT_A_TIME = 6
MESSAGES = [{"role": "user", "content": "Say hello."}]


def openai_chat(job, text):
    import openai
    client = openai.OpenAI(base_url=job["base"], api_key="sk-test", max_retries=0,
                           _strict_response_validation=job["strict"])
    more = {"max_tokens": job["max_tokens"]} if job["max_tokens"] else {}
    if job["stream"] and job["usage"]:
        more["stream_options"] = {"include_usage": True}
    answer = client.chat.completions.create(model=job["model"], messages=MESSAGES, stream=job["stream"], **more)
    finish = None
    if not job["stream"]:
        text.append(answer.choices[0].message.content)
        return answer.choices[0].finish_reason
    for chunk in answer:
        for choice in chunk.choices or []:
            delta = getattr(choice, "delta", None)
            text.append(getattr(delta, "content", None) or "")
            finish = choice.finish_reason or finish
    return finish


def openai_responses(job, text):
    import openai
    client = openai.OpenAI(base_url=job["base"], api_key="sk-test", max_retries=0,
                           _strict_response_validation=job["strict"])
    more = {"max_output_tokens": job["max_tokens"]} if job["max_tokens"] else {}
    answer = client.responses.create(model=job["model"], input="Say hello.", stream=job["stream"], **more)
    if not job["stream"]:
        text.append(answer.output_text)
        return answer.status
    finish = None
    for event in answer:
        if event.type == "response.output_text.delta":
            text.append(event.delta)
        if event.type in ("response.completed", "response.failed", "response.incomplete"):
            finish = event.type
    return finish


def anthropic_messages(job, text):
    import anthropic
    client = anthropic.Anthropic(base_url=job["base"], api_key="sk-test", max_retries=0,
                                 _strict_response_validation=job["strict"])
    answer = client.messages.create(model=job["model"], messages=MESSAGES, stream=job["stream"],
                                    max_tokens=job["max_tokens"] or 1024)
    if not job["stream"]:
        text.extend(block.text for block in answer.content)
        return answer.stop_reason
    finish = None
    for event in answer:
        if event.type == "content_block_delta" and event.delta.type == "text_delta":
            text.append(event.delta.text)
        if event.type == "message_delta":
            finish = event.delta.stop_reason or finish
    return finish


def gemini(job, text):
    from google import genai
    from google.genai import types
    options = types.HttpOptions(base_url=job["base"], retry_options=types.HttpRetryOptions(attempts=1))
    client = genai.Client(api_key="sk-test", http_options=options)
    call = client.models.generate_content_stream if job["stream"] else client.models.generate_content
    answer = call(model=job["model"], contents="Say hello.")
    finish = None
    for chunk in answer if job["stream"] else [answer]:
        for candidate in chunk.candidates or []:
            parts = (candidate.content.parts if candidate.content else None) or []
            text.extend(part.text or "" for part in parts)
            finish = candidate.finish_reason.value if candidate.finish_reason else finish
    return finish


CALLS = {"openai-chat": openai_chat, "openai-responses": openai_responses,
         "anthropic-messages": anthropic_messages, "gemini": gemini}


def call(job, limit_s):
    text, result = [], {}

    def work():
        try:
            result["finish"] = CALLS[job["protocol"]](job, text)
            result["answer"] = "accepts"
        except Exception as error:
            result["answer"] = "raises " + type(error).__name__
            result["why"] = str(error)[:300]

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit_s)
    said = {"answer": "hangs"} if thread.is_alive() else dict(result)
    return {"id": job["id"], "stream": job["stream"], "text": "".join(part or "" for part in text), **said}


def main():
    warnings.simplefilter("error", UserWarning)
    asked = json.load(sys.stdin)
    warmed = set()
    for job in asked["jobs"]:
        if job["protocol"] not in warmed:             # the first answer loads modules for seconds
            warmed.add(job["protocol"])
            call(job, 120)
    jobs, lock = queue.SimpleQueue(), threading.Lock()
    for job in asked["jobs"]:
        jobs.put(job)

    def worker():
        while True:
            try:
                job = jobs.get_nowait()
            except queue.Empty:
                return
            said = call(job, asked["limit_s"])
            with lock:
                print(json.dumps(said), flush=True)

    workers = [threading.Thread(target=worker) for _ in range(AT_A_TIME)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    sys.stdout.flush()
    os._exit(0)                                       # calls that hang are left behind


main()
