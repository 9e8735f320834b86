//! The published vectors of DSSE, and every byte of an envelope flipped.

use super::*;
use crate::sign::{Outcome, Subject, TestResult};

/// Keys of the vectors (those of RFC 8032, 7.1): seed and public key.
const A: (&str, &str) = (
    "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
);
const B: (&str, &str) = (
    "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
    "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
);

/// `{"_type":"https://in-toto.io/Statement/v1"}`, the payload of most vectors.
const BODY: &str = "eyJfdHlwZSI6Imh0dHBzOi8vaW4tdG90by5pby9TdGF0ZW1lbnQvdjEifQ==";
const SIG_A: &str =
    "2WAfaHm5jluo0w+0rk8uVkluELJYWjSmU9x7EUzx+AyteDGJ4/nqyJXfmAUVFIAoQafWm7AxBZNw5M9ixNHiCA==";
const SIG_B: &str =
    "c1+67/aT0yqEpwx8PsVY3MLHsj9D0CZ014/Fv/QlG59P+9CobUZ7xECJ/V3USG0Ob9CiE5LjReEZUzNF2l7eBw==";

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn pem(label: &str, start: &str, key: &str) -> Vec<u8> {
    let der = STANDARD.encode([unhex(start), unhex(key)].concat());
    format!("-----BEGIN {label}-----\n{der}\n-----END {label}-----\n").into_bytes()
}

fn private(key: (&str, &str)) -> SigningKey {
    let start = "302e020100300506032b657004220420";
    SigningKey::parse(&pem("PRIVATE KEY", start, key.0)).unwrap()
}

fn public(keys: &[(&str, &str)]) -> Vec<VerifyingKey> {
    let text: Vec<u8> = keys
        .iter()
        .flat_map(|key| pem("PUBLIC KEY", "302a300506032b6570032100", key.1))
        .collect();
    VerifyingKey::parse_all(&text).unwrap()
}

fn vector(payload: &str, kind: &str, signatures: &[(&str, Option<&str>)]) -> Envelope {
    let signatures: Vec<_> = signatures
        .iter()
        .map(|(sig, keyid)| match keyid {
            Some(keyid) => serde_json::json!({"sig": sig, "keyid": keyid}),
            None => serde_json::json!({"sig": sig}),
        })
        .collect();
    let text = serde_json::json!(
        {"payload": payload, "payloadType": kind, "signatures": signatures, "unheard_of": 1}
    );
    Envelope::parse(text.to_string().as_bytes()).unwrap()
}

/// How many different trusted keys have signed, by DSSE's own rules; `None` where it is refused.
fn threshold(envelope: &Envelope, trusted: &[VerifyingKey]) -> Option<usize> {
    let payload = envelope.payload().ok()?;
    let accepted = envelope.accepted(&payload, trusted).ok()?;
    Some(
        trusted
            .iter()
            .filter(|key| accepted.iter().any(|(_, by)| by == &Some(*key)))
            .count(),
    )
}

#[test]
fn the_bytes_that_are_signed_are_those_of_the_protocol() {
    // The example of protocol.md, whose signature is of another algorithm (ECDSA over P-256): it
    // fits the bytes that we make.
    let signed = pae("http://example.com/HelloWorld", b"hello world");
    assert_eq!(
        signed,
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    );
    let key = unhex(concat!(
        "04",
        "67cd390f77aa359cb08c2235f652270493a9ed832b0abcc01f70954c0390d238",
        "0c782bd54e269125a44f4433aff1432ce94e12bca73aa67ac80cea12608ddf74",
    ));
    let signature = STANDARD
        .decode(
            "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA==",
        )
        .unwrap();
    let fits = |message: &[u8]| {
        use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &key)
            .verify(message, &signature)
            .is_ok()
    };
    assert!(fits(&signed));
    assert!(!fits(b"hello world"));
    assert_eq!(pae("", b""), b"DSSEv1 0  0 ");
    // Lengths are of bytes, not of letters.
    assert!(pae("application/vnd.exämple+json", b"").starts_with(b"DSSEv1 29 "));
}

#[test]
fn the_published_vectors_are_accepted_and_refused_as_they_say() {
    let (a, both) = (public(&[A]), public(&[A, B]));
    let one = vector(BODY, PAYLOAD_TYPE, &[(SIG_A, Some("A"))]);
    assert_eq!(threshold(&one, &a), Some(1), "single-signature");

    let url_safe = vector(
        "-_-_Pj8=",
        PAYLOAD_TYPE,
        &[(
            "P-_KHICeR7tI6S_YyejJTRtrXhcQyQ2LYPaL8h90KjC9qN8HU_svOQ6TuDOT1HIrsGW886DbWNWcCmX5twLrAw==",
            Some("A"),
        )],
    );
    assert_eq!(threshold(&url_safe, &a), Some(1), "url-safe-base64");

    let swapped = vector(
        BODY,
        "application/vnd.example.other+json",
        &[(SIG_A, Some("A"))],
    );
    assert_eq!(threshold(&swapped, &a), None, "payload-type-swapped");

    let empty = vector(
        "",
        PAYLOAD_TYPE,
        &[(
            "gSggCAaTLTYyRH6FIDBem6meyIynsYy8RTHVzwx9tnTb7Bg/1jMWnuVgI/gffqmbsC2VX5/jHfkkDqsj7CDbDg==",
            Some("A"),
        )],
    );
    assert_eq!(threshold(&empty, &a), Some(1), "empty-payload");

    let two = vector(
        BODY,
        PAYLOAD_TYPE,
        &[(SIG_A, Some("A")), (SIG_B, Some("B"))],
    );
    assert_eq!(
        threshold(&two, &both),
        Some(2),
        "threshold-two-distinct-keys"
    );
    let twice = vector(
        BODY,
        PAYLOAD_TYPE,
        &[(SIG_A, Some("A")), (SIG_A, Some("A"))],
    );
    assert_eq!(
        threshold(&twice, &both),
        Some(1),
        "threshold-two-one-key-twice"
    );
    let unnamed = vector(BODY, PAYLOAD_TYPE, &[(SIG_A, None), (SIG_B, None)]);
    assert_eq!(
        threshold(&unnamed, &both),
        Some(2),
        "threshold-two-without-keyids"
    );
    assert_eq!(threshold(&two, &public(&[B])), Some(1));
}

#[test]
fn our_signature_of_a_published_payload_is_the_published_one() {
    let body = STANDARD.decode(BODY).unwrap();
    for (key, expected) in [(A, SIG_A), (B, SIG_B)] {
        let signed = private(key).sign(&pae(PAYLOAD_TYPE, &body)).unwrap();
        assert_eq!(STANDARD.encode(signed), expected);
    }
}

fn statement() -> Statement {
    let result = TestResult {
        result: Outcome::Failed,
        configuration: vec![Subject::of("specs/relay.yaml", b"relayproof: 1\n")],
        url: None,
        passed_tests: vec!["nova/large/chat/success >= 99%".to_owned()],
        warned_tests: vec![],
        failed_tests: vec!["nova/large/chat/ttft.p95 < 1.5s \"peak\"".to_owned()],
    };
    let subjects = vec![
        Subject::of("evidence", b"root"),
        Subject::of("report.json", b"{}"),
    ];
    Statement::new(subjects, result)
}

/// An unencrypted OpenSSH key of nobody, of the seed A.
fn ssh_private() -> SigningKey {
    use ssh_key::private::{Ed25519Keypair, KeypairData};
    let seed = <[u8; 32]>::try_from(unhex(A.0)).unwrap();
    let public = ssh_key::public::Ed25519PublicKey(unhex(A.1).try_into().unwrap());
    let pair = Ed25519Keypair {
        public,
        private: ssh_key::private::Ed25519PrivateKey::from_bytes(&seed),
    };
    let key = ssh_key::PrivateKey::new(KeypairData::Ed25519(pair), "me@here").unwrap();
    let text = key.to_openssh(ssh_key::LineEnding::LF).unwrap();
    SigningKey::parse(text.as_bytes()).unwrap()
}

#[test]
fn every_flipped_bit_of_an_envelope_is_found() {
    for key in [private(A), ssh_private()] {
        let trusted = [key.public().clone()];
        let bytes = Envelope::sign(&statement(), &key)
            .unwrap()
            .to_json()
            .unwrap();
        let verified = verify(bytes.as_bytes(), &trusted).unwrap();
        assert_eq!(verified.statement, statement());
        assert_eq!(verified.signers, trusted);
        assert!(verified.unknown.is_empty());
        every_flip_is_found(bytes.as_bytes(), &trusted, |_| 0..8);
    }
}

#[test]
fn every_flipped_byte_is_found_under_two_signatures_as_well() {
    let keys = [private(A), ssh_private()];
    let trusted = keys.each_ref().map(|key| key.public().clone());
    let mut envelope = Envelope::sign(&statement(), &keys[0]).unwrap();
    envelope.countersign(&keys[1]).unwrap();
    let bytes = envelope.to_json().unwrap();
    assert_eq!(verify(bytes.as_bytes(), &trusted).unwrap().signers.len(), 2);
    every_flip_is_found(bytes.as_bytes(), &trusted, |at| at % 8..at % 8 + 1);
}

fn every_flip_is_found(
    bytes: &[u8],
    trusted: &[VerifyingKey],
    bits: impl Fn(usize) -> std::ops::Range<usize>,
) {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len() {
        for bit in bits(at) {
            bytes[at] ^= 1 << bit;
            let found = verify(&bytes, trusted);
            let error = found.expect_err(&format!("bit {bit} of byte {at} may be flipped"));
            assert!(error.is_refusal(), "{error}");
            bytes[at] ^= 1 << bit;
        }
    }
    for cut in 0..bytes.len() {
        assert!(verify(&bytes[..cut], trusted).is_err(), "cut at {cut}");
    }
    bytes.push(b'\n');
    assert!(verify(&bytes, trusted).is_err(), "a further newline");
}

#[test]
fn a_signature_that_nobody_here_knows_proves_nothing() {
    let mut envelope = Envelope::sign(&statement(), &private(B)).unwrap();
    let only = envelope.to_json().unwrap();
    let error = verify(only.as_bytes(), &public(&[A])).unwrap_err();
    assert!(matches!(&error, Error::Untrusted(named) if named.len() == 1));
    assert!(error.is_refusal());
    let none = verify(only.as_bytes(), &[]).unwrap_err();
    assert!(matches!(none, Error::Untrusted(_)));

    envelope.countersign(&private(A)).unwrap();
    let both = envelope.to_json().unwrap();
    let verified = verify(both.as_bytes(), &public(&[A])).unwrap();
    assert_eq!(verified.signers, public(&[A]));
    assert_eq!(verified.unknown, [public(&[B])[0].keyid()]);
}

#[test]
fn a_key_signs_an_envelope_once() {
    let mut envelope = Envelope::sign(&statement(), &private(A)).unwrap();
    let again = envelope.countersign(&private(A)).unwrap_err();
    assert!(matches!(again, Error::SignedAlready(_)));
    assert!(!again.is_refusal());
}

/// A plain signature in an SSH key's name, or the other way round, is a confusion of domains.
#[test]
fn a_signature_of_one_form_is_none_of_the_other() {
    let (plain, ssh) = (private(A), ssh_private());
    assert_eq!(ssh.public().comment(), "me@here");
    let signed = Envelope::sign(&statement(), &plain).unwrap();
    let error = verify(
        signed.to_json().unwrap().as_bytes(),
        &[ssh.public().clone()],
    );
    assert!(matches!(error, Err(Error::Untrusted(_))));
    let signed = Envelope::sign(&statement(), &ssh).unwrap();
    let error = verify(
        signed.to_json().unwrap().as_bytes(),
        &[plain.public().clone()],
    );
    assert!(matches!(error, Err(Error::Untrusted(_))));
}

#[test]
fn a_signed_payload_of_another_kind_is_not_taken_for_a_test_result() {
    let key = private(A);
    let sign = |payload: &str| {
        let signed = key.sign(&pae(PAYLOAD_TYPE, payload.as_bytes())).unwrap();
        let envelope = Envelope {
            payload: STANDARD.encode(payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![Signature {
                keyid: Some(key.public().keyid().to_owned()),
                sig: STANDARD.encode(signed),
            }],
        };
        verify(envelope.to_json().unwrap().as_bytes(), &public(&[A]))
    };
    let whole = String::from_utf8(statement().to_json().unwrap()).unwrap();
    assert!(sign(&whole).is_ok());
    for (payload, says) in [
        ("{}", "missing field"),
        ("not json", "expected"),
        (&whole.replace("Statement/v1", "Statement/v0.1"), "v0.1"),
        (&whole.replace("test-result/v0.1", "link/v0.3"), "link/v0.3"),
        (&whole.replace("FAILED", "SPLENDID"), "SPLENDID"),
        (&whole.replace("\"sha256\":\"", "\"sha256\":\"f"), "64"),
    ] {
        let error = sign(payload).unwrap_err();
        assert!(matches!(error, Error::NotAStatement(_)), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn an_envelope_is_bounded() {
    let signature = r#"{"sig":"AAAA"}"#;
    let with = |count: usize| {
        let signatures = vec![signature; count].join(",");
        let text = format!(r#"{{"payload":"","payloadType":"x","signatures":[{signatures}]}}"#);
        Envelope::parse(text.as_bytes())
    };
    assert!(with(0).is_err());
    assert!(with(MOST_SIGNATURES).is_ok());
    assert!(with(MOST_SIGNATURES + 1).is_err());
    let long = vec![b' '; usize::try_from(MOST_ENVELOPE_BYTES).unwrap() + 1];
    assert!(
        Envelope::parse(&long)
            .unwrap_err()
            .to_string()
            .contains("longer")
    );
    assert!(Envelope::parse(&b"[".repeat(1_000_000)).is_err());
}

#[test]
fn the_statement_is_spelled_as_in_toto_spells_it() {
    let text = String::from_utf8(statement().to_json().unwrap()).unwrap();
    let expected = concat!(
        r#"{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"evidence","digest":{"sha256":""#,
        "4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2",
        r#""}},{"name":"report.json","digest":{"sha256":""#,
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        r#""}}],"predicateType":"https://in-toto.io/attestation/test-result/v0.1","predicate":"#,
        r#"{"result":"FAILED","configuration":[{"name":"specs/relay.yaml","digest":{"sha256":""#,
    );
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with(concat!(
        r#"],"passedTests":["nova/large/chat/success >= 99%"],"warnedTests":[],"#,
        r#""failedTests":["nova/large/chat/ttft.p95 < 1.5s \"peak\""]}}"#,
    )));
}
