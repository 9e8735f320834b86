use super::*;

const START: &str = "id: a-case\nprotocol: openai-chat\n";

fn parse(text: &str) -> Result<Case, String> {
    Case::parse(Path::new("a.yaml"), text).map_err(|error| error.to_string())
}

fn script(response: &str) -> Arc<Script> {
    let text = format!("{START}response:\n{response}");
    match parse(&text).unwrap().reach {
        Reach::Answer(script) => script,
        Reach::Refused | Reach::NoSuchName | Reach::PlainPort => panic!("no answer"),
    }
}

fn wire(script: &Script) -> Vec<(u128, String)> {
    let writes = script.writes();
    writes
        .map(|(at, bytes)| {
            let text = bytes.escape_ascii().to_string();
            (at.as_millis(), text)
        })
        .collect()
}

fn written(response: &str) -> Vec<(u128, String)> {
    wire(&script(response))
}

fn said(at: u128, text: &str) -> (u128, String) {
    (at, text.to_owned())
}

#[test]
fn each_send_is_one_chunk_and_waits_add_up() {
    let script = script(
        "  status: 200\n  headers: { a: b, c: [1, d] }\n  steps:\n    - send: \"x\\n\"\n    \
         - wait_ms: 20\n    - repeat: { times: 2, steps: [{ wait_ms: 5 }, { send_hex: \"fF00\" }] }\n    \
         - raw: \"0;q\\r\\n\"\n    - close: clean\nexpect: { first_token_step: 2, outcome: ok }\n",
    );
    assert_eq!(
        wire(&script),
        [
            said(
                0,
                r"HTTP/1.1 200 OK\r\na: b\r\nc: 1\r\nc: d\r\ntransfer-encoding: chunked\r\n\r\n"
            ),
            said(0, r"2\r\nx\n\r\n"),
            said(25, r"2\r\n\xff\x00\r\n"),
            said(30, r"2\r\n\xff\x00\r\n"),
            said(30, r"0;q\r\n"),
            said(30, r"0\r\n\r\n"),
        ]
    );
    assert_eq!(script.first_token(), Some(2));
    assert_eq!(script.end(), End::Reuse);
}

#[test]
fn a_length_is_what_the_case_says_or_what_it_sends() {
    let steps = "steps: [{ send: ab }, { repeat: { times: 3, steps: [{ send: c }] } }]\n";
    let whole = written(&format!("  framing: length\n  {steps}"));
    assert_eq!(whole[0].1, r"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
    let short = written(&format!(
        "  framing: length\n  content_length: 2\n  {steps}"
    ));
    assert_eq!(short[0].1, r"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
    assert_eq!(short[1..], whole[1..]);
}

#[test]
fn a_raw_case_writes_its_head_itself_and_one_that_ends_with_the_connection_says_so() {
    assert_eq!(
        written(
            "  framing: raw\n  steps: [{ raw: \"HTTP/1.1 200 OK\\r\\n\\r\\n\" }, { send: x }]\n"
        ),
        [said(0, r"HTTP/1.1 200 OK\r\n\r\n"), said(0, "x")]
    );
    assert_eq!(
        written("  framing: eof\n  status: 418\n  reason: Teapot\n  steps: []\n"),
        [said(0, r"HTTP/1.1 418 Teapot\r\nconnection: close\r\n\r\n")]
    );
}

#[test]
fn what_comes_before_the_head_may_be_all() {
    let early = script("  before: [{ raw: early }, { wait_ms: 3 }]\n  steps: []\n");
    assert_eq!(wire(&early)[0], said(0, "early"));
    assert_eq!(wire(&early)[1].0, 3);
    let gone = script("  before: [{ wait_ms: 3 }, { close: rst }]\n  steps: [{ send: never }]\n");
    assert_eq!((wire(&gone), gone.end()), (Vec::new(), End::Rst));
}

#[test]
fn a_connection_ends_as_the_case_says_and_stays_usable_only_where_a_client_can_know() {
    for (response, end) in [
        ("steps: [{ close: clean }]", End::Reuse),
        ("steps: [{ close: fin }]", End::Fin),
        ("steps: [{ close: rst }]", End::Rst),
        ("steps: [{ close: hang }]", End::Hang),
        ("steps: []", End::Fin),
        ("framing: length\n  steps: []", End::Reuse),
        ("framing: eof\n  steps: [{ close: clean }]", End::Fin),
        ("framing: raw\n  steps: [{ close: clean }]", End::Fin),
        (
            "headers: { Connection: close }\n  steps: [{ close: clean }]",
            End::Fin,
        ),
    ] {
        assert_eq!(script(&format!("  {response}\n")).end(), end, "{response}");
    }
}

#[test]
fn a_client_that_fails_before_http_gets_no_answer() {
    for (transport, reach) in [
        ("refused", Reach::Refused),
        ("dns", Reach::NoSuchName),
        ("tls-plaintext", Reach::PlainPort),
    ] {
        let case = parse(&format!("{START}transport: {transport}\n")).unwrap();
        assert_eq!(case.reach, reach);
    }
}

#[test]
fn a_mistake_is_named_with_its_file_and_place() {
    let cases = [
        ("steps: [", "a.yaml:"),
        ("stesp: []", "unknown field `stesp`"),
        ("steps: [{ sned: x }]", "unknown variant `sned`"),
        ("steps: [{ send: x, wait_ms: 1 }]", "a.yaml:4:"),
        ("steps: [{ send_hex: abc }]", "pairs of hex digits"),
        ("steps: [{ send_hex: 0g }]", "pairs of hex digits"),
        ("steps: [{ close: slam }]", "unknown variant `slam`"),
        (
            "steps: [{ close: fin }, { send: x }]",
            "a.yaml:4:27: nothing can follow a `close`",
        ),
        (
            "steps: [{ repeat: { times: 1, steps: [{ close: fin }] } }]",
            "a `close` inside a repetition",
        ),
        (
            "steps: [{ repeat: { times: 1, steps: [{ repeat: { times: 1, steps: [] } }] } }]",
            "a.yaml:4:41: a repetition inside a repetition",
        ),
        ("before: [{ send: x }]\n  steps: []", "no body comes before"),
        ("steps: [{ wait_ms: 3600001 }]", "longer than an hour"),
        (
            "steps: [{ repeat: { times: 200001, steps: [{ wait_ms: 0 }] } }]",
            "more than 200,000 steps",
        ),
        (
            "steps: [{ repeat: { times: 100000000, steps: [] } }]",
            "more than 1,000,000 repetitions",
        ),
        (
            "headers: { \"a\": \"b\\r\\nc\" }\n  steps: []",
            "without a line break",
        ),
        ("framing: gzip\n  steps: []", "unknown variant `gzip`"),
        ("status: high\n  steps: []", "a.yaml:4:11"),
        ("{}", "missing field `steps`"),
    ];
    for (response, expected) in cases {
        let text = format!("{START}response:\n  {response}\n");
        let error = parse(&text).unwrap_err();
        assert!(error.contains(expected), "{response}: {error}");
        assert!(error.starts_with("a.yaml:"), "{response}: {error}");
    }
    for (text, expected) in [
        ("protocol: openai-chat\n", "missing field `id`"),
        (
            "id: a/b\nprotocol: openai-chat\n",
            "a.yaml:1:5: an id is 1 to 128",
        ),
        ("id: v1\nprotocol: openai-chat\n", "the relay's own answers"),
        ("id: a\nprotocol: gopher\n", "a.yaml:2:11: no protocol"),
        ("id: a\nid: b\n", "duplicate"),
        (START, "a.yaml: neither"),
        (
            "id: a\nprotocol: gemini\ntransport: dns\nresponse: { steps: [] }\n",
            "a.yaml:3:12: a client that fails",
        ),
        (
            "id: a\nprotocol: gemini\ntransport: carrier-pigeon\n",
            "unknown variant",
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_case_that_would_fill_the_memory_is_refused() {
    let text = "x".repeat(20_000);
    let error = parse(&format!(
        "{START}response:\n  steps: [{{ repeat: {{ times: 1000, steps: [{{ send: {text} }}] }} }}]\n"
    ));
    assert!(error.unwrap_err().contains("16 MiB"));
}

#[test]
fn a_folder_without_cases_and_a_file_that_is_not_there_are_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let error = Case::load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("no .yaml file"), "{error}");
    let error = Case::load(&folder.path().join("none.yaml")).unwrap_err();
    assert!(error.to_string().contains("none.yaml: "), "{error}");
    for (name, id) in [("2.yaml", "b"), ("1.yaml", "a"), ("notes.txt", "c")] {
        let text = format!("id: {id}\nprotocol: raw-sse\nresponse: {{ steps: [] }}\n");
        fs::write(folder.path().join(name), text).unwrap();
    }
    let cases = Case::load(folder.path()).unwrap();
    assert_eq!(cases.iter().map(Case::id).collect::<Vec<_>>(), ["a", "b"]);
}
