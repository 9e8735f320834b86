//! The report of a soak, signed and checked: by its signature, its evidence, and its verdicts.

use std::fs;
use std::process::Command;

use crate::place::{Place, Seen};
use crate::soak::week;

const AS_OF: &str = "2026-12-20T00:00:00Z";

/// A PKCS#8 key pair of Ed25519, made for these tests and for nothing else: RFC 8410, section 10.3.
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
";

/// A signed report of a week, its keys and its evidence.
fn signed(form: &str, file: &str) -> Place {
    signed_as_of(AS_OF, form, file)
}

fn signed_as_of(as_of: &str, form: &str, file: &str) -> Place {
    let place = Place::new();
    week(&place);
    place.write("key.pem", PRIVATE);
    place.write("pub.pem", PUBLIC);
    let arguments = [
        "report", "week", "--format", form, "--out", file, "--sign", "key.pem", "--as-of", as_of,
    ];
    let arguments: Vec<&str> = arguments
        .into_iter()
        .flat_map(|it| {
            if it == "week" {
                vec!["week/hk", "week/usw"]
            } else {
                vec![it]
            }
        })
        .collect();
    let seen = place.run(&arguments);
    assert!(
        seen.exits(0)
            .err
            .contains(&format!("signed: {file}.dsse.json"))
    );
    place
}

fn verify(place: &Place, more: &[&str]) -> Seen {
    let mut arguments = vec![
        "verify",
        "report.json",
        "week/hk",
        "week/usw",
        "--key",
        "pub.pem",
    ];
    arguments.extend(more);
    place.run(&arguments)
}

#[test]
fn a_signed_report_is_believed_with_its_evidence() {
    let place = signed("json", "report.json");
    let text = verify(&place, &[]).exits(0).out.clone();
    for wanted in [
        "report.json: signed by ",
        ": as it was signed",
        "the same again from the evidence, byte by byte",
        "the evidence comes to: violated",
    ] {
        assert!(text.contains(wanted), "{wanted} in\n{text}");
    }
    let alone = place.run(&["verify", "report.json", "--key", "pub.pem"]);
    assert!(alone.exits(0).out.contains("verdicts not made again"));
    let unsigned = place.run(&["verify", "report.json", "week/hk", "week/usw"]);
    assert!(unsigned.exits(0).out.contains("signature not checked"));
}

#[test]
fn pages_are_made_again_as_well() {
    for (form, file) in [("html", "report.html"), ("markdown", "report.md")] {
        let arguments = ["verify", file, "week/hk", "week/usw", "--key", "pub.pem"];
        signed(form, file).run(&arguments).exits(0);
    }
}

#[test]
fn a_page_from_before_the_end_is_made_again_as_of_when_it_was() {
    const AMIDST: &str = "2026-03-05T00:00:00Z";
    for (form, file) in [("html", "report.html"), ("markdown", "report.md")] {
        let place = signed_as_of(AMIDST, form, file);
        let arguments = ["verify", file, "week/hk", "week/usw", "--key", "pub.pem"];
        place.run(&arguments).exits(1);
        let mut arguments = arguments.to_vec();
        arguments.extend(["--as-of", AMIDST]);
        place.run(&arguments).exits(0);
    }
}

#[test]
fn a_flipped_byte_of_report_signature_or_evidence_is_found() {
    let place = signed("json", "report.json");
    for file in [
        "report.json",
        "report.json.dsse.json",
        "week/hk/relay.jsonl",
    ] {
        let path = if file.starts_with("week") {
            let first = fs::read_dir(place.path().join("week/hk")).unwrap();
            let mut files: Vec<_> = first.map(|entry| entry.unwrap().path()).collect();
            files.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
            files.sort();
            files.remove(0)
        } else {
            place.path().join(file)
        };
        let whole = fs::read(&path).unwrap();
        // Ten places all over the file; the modules try every byte.
        for tenth in 0..10 {
            let at = (whole.len() - 1) * tenth / 10;
            let mut altered = whole.clone();
            altered[at] ^= 1;
            fs::write(&path, &altered).unwrap();
            let seen = verify(&place, &[]);
            assert_ne!(
                seen.status.code(),
                Some(0),
                "byte {at} of {file}:\n{}",
                seen.out
            );
        }
        fs::write(&path, &whole).unwrap();
    }
    verify(&place, &[]).exits(0);
}

#[test]
fn a_report_of_other_evidence_is_not_believed() {
    let place = signed("json", "report.json");
    let less = place.run(&["verify", "report.json", "week/hk", "--key", "pub.pem"]);
    let text = less.exits(1).out.clone();
    assert!(text.contains("signed was"), "{text}");
    assert!(text.contains("not what the evidence gives"), "{text}");
}

#[test]
fn a_signature_by_nobody_we_trust_is_no_signature() {
    let place = signed("json", "report.json");
    let other = PUBLIC.replace("AGb9EC", "AGb9ED");
    place.write("other.pem", &other);
    let seen = place.run(&["verify", "report.json", "--key", "other.pem"]);
    assert_ne!(seen.status.code(), Some(0), "{}", seen.out);
    fs::remove_file(place.path().join("report.json.dsse.json")).unwrap();
    let gone = place.run(&["verify", "report.json", "--key", "pub.pem"]);
    assert!(gone.exits(2).err.contains("report.json.dsse.json"));
}

#[test]
fn what_cannot_be_signed_is_refused_with_a_way_out() {
    let place = Place::new();
    week(&place);
    place.write("key.pem", PRIVATE);
    let folders = ["week/hk", "week/usw"];
    let run = |more: &[&str]| {
        let mut arguments = vec!["report", "--format", "json"];
        arguments.extend(folders);
        arguments.extend(more);
        place.run(&arguments)
    };
    assert!(run(&["--sign", "key.pem"]).exits(2).err.contains("--out"));
    let missing = run(&["--out", "r.json", "--sign", "none.pem"]);
    assert!(missing.exits(2).err.contains("none.pem"));
    let lost = place.run(&["verify", "week/hk", "--key", "key.pem"]);
    assert!(lost.exits(2).err.contains("for a report"));
}

#[test]
fn no_key_is_in_a_signed_report() {
    let place = signed("json", "report.json");
    let secret = "INTuctv5E1hK1bbY8fdp";
    assert!(PRIVATE.contains(secret));
    for file in ["report.json", "report.json.dsse.json"] {
        let text = fs::read_to_string(place.path().join(file)).unwrap();
        assert!(!text.contains(secret), "{file}");
    }
}

#[test]
fn the_signature_is_one_that_openssl_accepts() {
    let has = |program: &str| Command::new(program).arg("version").output().is_ok();
    if !has("openssl") {
        println!("skipped: no openssl");
        return;
    }
    let place = signed("json", "report.json");
    let envelope = fs::read(place.path().join("report.json.dsse.json")).unwrap();
    let envelope: serde_json::Value = serde_json::from_slice(&envelope).unwrap();
    let decode = |text: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD
            .decode(text)
            .unwrap()
    };
    let payload = decode(envelope["payload"].as_str().unwrap());
    let kind = envelope["payloadType"].as_str().unwrap();
    let mut bytes = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(&payload);
    fs::write(place.path().join("signed"), bytes).unwrap();
    let signature = decode(envelope["signatures"][0]["sig"].as_str().unwrap());
    fs::write(place.path().join("signature"), signature).unwrap();
    let checked = Command::new("openssl")
        .current_dir(place.path())
        .args([
            "pkeyutl", "-verify", "-pubin", "-inkey", "pub.pem", "-rawin",
        ])
        .args(["-in", "signed", "-sigfile", "signature"])
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let statement: serde_json::Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(statement["predicate"]["result"], "FAILED");
    let failed = statement["predicate"]["failedTests"].as_array().unwrap();
    assert!(
        failed
            .iter()
            .any(|name| name.as_str().unwrap().contains("@peak")),
        "{failed:?}"
    );
}
