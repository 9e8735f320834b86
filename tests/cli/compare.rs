//! What `compare` prints, refuses and ends with: on runs of the embedded relay, and on evidence of
//! exactly so many samples.

use std::fmt::Write as _;
use std::fs;

use relayproof::evidence;
use serde_json::{Value, json};

use crate::place::{Place, Seen};

/// One evidence file to be made up.
struct Made {
    relay: &'static str,
    model: &'static str,
    run: &'static str,
    n: u64,
    /// Answers that break off, from the first on.
    cut: u64,
    /// Time to the first token, by index, in milliseconds.
    ttft_ms: fn(u64) -> u64,
    price: Value,
    invalid: Option<&'static str>,
}

const RELAY: Made = Made {
    relay: "alpha",
    model: "m",
    run: "r1",
    n: 300,
    cut: 0,
    ttft_ms: |index| 600 + (index * 37) % 200,
    price: Value::Null,
    invalid: None,
};

impl Made {
    fn header(&self) -> Value {
        let mut header = json!({
            "schema": 1, "tool_version": "0", "run_id": self.run, "started_unix_ns": 1,
            "host": "h", "spec_name": "s", "spec_source": "s.yaml", "spec_sha256": "",
            "plan_digest": "d", "cell_id": "c",
            "cell": format!("{}/{}/chat", self.relay, self.model),
            "relay": self.relay, "model": self.model, "workload": "chat",
            "base_url": "http://127.0.0.1/v1", "protocol": "openai-chat", "transport": "reqwest",
            "max_tokens": 128, "prompt": [],
            "sampling": {
                "seed": 1, "rate_per_s": 100.0, "max_samples": self.n, "concurrency": 8,
                "warmup": 0, "max_tokens": null, "max_duration_us": null,
            },
            "judge": {
                "method": "wilson", "confidence_ppm": 950_000, "mode": "prove",
                "on_inconclusive": "fail", "stop": "all", "design_ratio": 5.0, "futility": true,
                "tokens": "usage",
            },
            "otel": { "trace_url": null, "ci_parent": false },
            "objectives": [
                {
                    "text": "ttft.p95 < 1s", "metric": "ttft",
                    "statistic": { "Quantile": 950_000 }, "op": "<", "bound": 1.0,
                    "confidence_ppm": null, "severity": "gate", "line": 1, "column": 1,
                },
                {
                    "text": "interruption < 1%", "metric": "interruption", "statistic": "Rate",
                    "op": "<", "bound": 0.01, "confidence_ppm": null, "severity": "gate",
                    "line": 1, "column": 1,
                },
            ],
        });
        if !self.price.is_null() {
            header["price"] = self.price.clone();
        }
        header
    }

    fn sample(&self, index: u64) -> Value {
        let first = (self.ttft_ms)(index) * 1000;
        let whole = index >= self.cut;
        let mut seen = json!({
            "timeline": {
                "head_us": 1000, "first_event_us": first, "first_token_us": first,
                "last_token_us": first + 400_000, "over_us": first + 402_000,
            },
            "ending": "truncated", "last_phase": "stream", "parse_ok": true, "interrupted": true,
            "status": 200, "model": "m",
            "findings": [
                { "class": "truncated-no-terminator", "phase": "stream", "detail": "" },
            ],
            "packets": {
                "count": 21, "content_events": 21, "chars": 84, "first_chars": 4,
                "first_us": first, "last_us": first + 400_000,
            },
            "counts": {}, "connection": {},
        });
        if whole {
            seen["timeline"]["end_mark_us"] = json!(first + 401_000);
            seen["ending"] = json!("completed");
            seen["last_phase"] = json!("end");
            seen["interrupted"] = json!(false);
            seen["findings"] = json!([]);
            seen["finish_reason"] = json!("stop");
            seen["usage"] = json!({ "input": 100, "output": 50 });
        }
        json!({ "sample": {
            "id": format!("{index:016x}"), "index": index, "trace_id": format!("{index:032x}"),
            "t0_unix_ns": 1_000_000_000 * (index + 1), "planned_us": index * 10_000, "lag_us": 0,
            "attempts": [{ "start_us": 0, "observation": seen }],
        }})
    }

    fn write(&self, place: &Place, name: &str) {
        let mut text = format!("{}\n", self.header());
        for index in 0..self.n {
            let _ = writeln!(text, "{}", self.sample(index));
        }
        let mut close = json!({
            "reason": "budget", "at_unix_ns": 1, "abandoned": 0,
            "self_check": {
                "late_starts": 0, "max_lag_us": 0, "loop_lag_p99_us": 0, "loop_lag_max_us": 0,
                "loop_probes": 0, "clock_step_us": 0,
            },
        });
        if let Some(why) = self.invalid {
            close["self_check"]["invalid"] = json!(why);
        }
        let _ = writeln!(text, "{}", json!({ "close": close }));
        place.write(name, &text);
    }
}

/// Ten clean samples of one relay, and ten thousand of another that fails one in a hundred.
fn few_and_many() -> Place {
    few_and(10_000)
}

fn few_and(n: u64) -> Place {
    let place = Place::new();
    let few = Made {
        relay: "few",
        n: 10,
        ..RELAY
    };
    few.write(&place, "few.jsonl");
    let many = Made {
        relay: "many",
        n,
        cut: n / 100,
        price: json!({ "input": 0.15, "output": 0.6, "multiplier": 0.8 }),
        ..RELAY
    };
    many.write(&place, "many.jsonl");
    place
}

/// The line with these words, white space made single.
#[track_caller]
fn line_with(seen: &Seen, words: &str) -> String {
    let found = seen.out.lines().find(|line| line.contains(words));
    let line = found.unwrap_or_else(|| panic!("no line has `{words}`\n{seen}"));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// All lines as one, so that it does not matter where they are broken.
fn in_one_line(seen: &Seen) -> String {
    seen.out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn fits(seen: &Seen) {
    for line in seen.out.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn ten_of_ten_rank_below_9900_of_10000_and_the_output_shows_why() {
    let place = few_and_many();
    let seen = place.run(&["compare", "few.jsonl", "many.jsonl"]);
    seen.exits(0)
        .says("m/chat: usable")
        .says("score: lower end of Wilson's interval, z = 1.959964 (two-sided 95%)");
    assert_eq!(
        line_with(&seen, "0.987853"),
        "1 many 0.987853 9900 of 10000 99.00% 98.78% to 99.18% >= 0.72"
    );
    assert_eq!(
        line_with(&seen, "0.722467"),
        "≈ 1 few 0.722467 10 of 10 100% 72.24% to 100% unknown"
    );
    assert!(seen.out.find("many").unwrap() < seen.out.find("few").unwrap());
    let said = in_one_line(&seen);
    for words in [
        "10 of 10 can come from a true share of 72.24% to 100%",
        "n too small: 313 clean samples would be needed to outrank many",
        "many minus few: -1.00 pt, between -1.21 and +26.75; ≈ not shown to differ",
        "many: the cost of 100 of 10000 samples is unknown (no final usage), not 0",
        "few: no price in its spec",
    ] {
        assert!(said.contains(words), "`{words}` is not in\n{seen}");
    }
    fits(&seen);
    // The order of the arguments is none of the ranking's business.
    let turned = place.run(&["compare", "many.jsonl", "few.jsonl"]);
    assert_eq!(turned.out, seen.out);
}

#[test]
fn the_score_says_which_z_it_has() {
    let place = few_and_many();
    let one = ["compare", ".", "--sides", "one"];
    let seen = place.run(&one);
    seen.exits(0).says("z = 1.644854 (one-sided 95%)");
    seen.says("0.988226").says("0.787058").says("228 clean");
    let sure = place.run(&["compare", ".", "--confidence", "99%"]);
    sure.exits(0).says("z = 2.575829 (two-sided 99%)");
}

#[test]
fn the_document_of_a_ranking_has_every_number() {
    let place = few_and_many();
    let seen = place.run(&["compare", ".", "--format", "json"]);
    let document = seen.exits(0).json();
    assert_eq!(
        (&document["schema"], &document["kind"]),
        (&1.into(), &"ranking".into())
    );
    assert!((document["score"]["z"].as_f64().unwrap() - 1.959_964).abs() < 1e-6);
    let ranking = &document["rankings"][0];
    assert_eq!(ranking["question"], "usable");
    assert_eq!(ranking["neighbours"][0]["tied"], true);
    let [many, few] = ranking["relays"].as_array().unwrap().as_slice() else {
        panic!("{document}");
    };
    assert_eq!(
        (&many["relay"], &many["place"]),
        (&"many".into(), &1.into())
    );
    assert_eq!((&few["relay"], &few["place"]), (&"few".into(), &1.into()));
    assert_eq!((&many["n"], &many["good"]), (&10_000.into(), &9900.into()));
    assert_eq!(few["outrank"], json!({ "above": "many", "samples": 313 }));
    // 9,900 whole answers of 100 and 50 tokens; what the cut ones cost, nobody knows.
    let price = &many["price"];
    let usd = 9900.0 * (100.0 * 0.15 + 50.0 * 0.6) * 0.8 / 1e6;
    assert!((price["usd"].as_f64().unwrap() - usd).abs() < 1e-9);
    assert_eq!(price["unknown_samples"], 100);
    assert_eq!(price["is_lower_bound"], true);
    assert_eq!(price["usable_output_tokens"], 495_000);
    let rate = price["usd_per_million_usable_output_tokens"].as_f64();
    assert!((rate.unwrap() - 0.72).abs() < 1e-9, "{price}");
    assert_eq!(few["price"]["usd"], Value::Null);
    assert_eq!(
        few["price"]["usd_per_million_usable_output_tokens"],
        Value::Null
    );
}

#[test]
fn a_page_to_publish_has_the_ranking_and_is_of_rankings_only() {
    let place = few_and_many();
    let page = place
        .run(&["compare", ".", "--format", "html"])
        .exits(0)
        .out
        .clone();
    let at = |words: &str| {
        page.find(words)
            .unwrap_or_else(|| panic!("no {words} in {page}"))
    };
    assert!(page.starts_with("<!DOCTYPE html>"));
    assert!(at("<code>many</code>") < at("<code>few</code>"));
    for wanted in [
        "0.987853",
        "9900 of 10000",
        "98.78% to 99.18%",
        "313 clean samples",
    ] {
        at(wanted);
    }
    assert!(!page.contains("<script") && !page.contains("https://"));
    place
        .run(&["compare", "--against", ".", ".", "--format", "html"])
        .exits(2)
        .complains("a page of a ranking");
}

#[test]
fn another_share_can_be_scored() {
    let place = Place::new();
    let slow = |relay, ttft_ms| Made {
        relay,
        ttft_ms,
        ..RELAY
    };
    slow("quick", |_| 700).write(&place, "quick.jsonl");
    slow("slow", |index| if index % 4 == 0 { 1600 } else { 700 }).write(&place, "slow.jsonl");
    let seen = place.run(&["compare", ".", "--metric", "ttft < 1s"]);
    seen.exits(0).says("m/chat: ttft < 1s");
    assert!(line_with(&seen, "quick ").starts_with("1 quick"), "{seen}");
    assert!(line_with(&seen, "slow ").starts_with("2 slow"), "{seen}");
    seen.says("225 of 300");
    let same = place.run(&["compare", ".", "--metric", "interruption"]);
    same.exits(0).says("no interruption").says("≈ 1 slow");
}

#[test]
fn what_was_asked_something_else_is_not_compared_unless_forced() {
    let place = few_and(200);
    let other = Made {
        relay: "other",
        model: "n",
        ..RELAY
    };
    other.write(&place, "other.jsonl");
    place
        .run(&["compare", "few.jsonl", "other.jsonl"])
        .exits(2)
        .complains("no two of these cells were asked the same")
        .complains("model m and n (other/n/chat)");
    let forced = place.run(&["compare", "few.jsonl", "other.jsonl", "--force"]);
    forced.exits(0).says("not quite alike: model m and n");
    // Beside two that are alike it is left out, and that is said.
    place
        .run(&["compare", "."])
        .exits(0)
        .complains("not ranked: other/n/chat: no other relay was asked the same");
    place
        .run(&["compare", "--against", "few.jsonl", "other.jsonl"])
        .exits(2)
        .complains("other/n/chat was not asked the same as few/m/chat: model m and n");
}

/// An old run, one like it, and one that is a fifth slower and breaks off one answer in twenty.
fn runs() -> Place {
    let place = Place::new();
    RELAY.write(&place, "old.jsonl");
    let same = Made {
        run: "r2",
        ttft_ms: |index| 600 + (index * 41) % 200,
        ..RELAY
    };
    same.write(&place, "same.jsonl");
    let worse = Made {
        run: "r3",
        cut: 15,
        ttft_ms: |index| 720 + (index * 41) % 240,
        ..RELAY
    };
    worse.write(&place, "worse.jsonl");
    place
}

#[test]
fn a_relay_that_got_worse_is_a_regression_and_one_that_did_not_is_none() {
    let place = runs();
    let seen = place.run(&["compare", "--against", "old.jsonl", "worse.jsonl"]);
    seen.exits(1).says("alpha/m/chat: REGRESSION");
    let said = in_one_line(&seen);
    for words in [
        "WORSE no interruption 300 of 300 -> 285 of 300 -5.00 pt, between -8.08 and -2.68; p \
         under 0.0001 (Fisher)",
        "not shown ttft < 1s 300 of 300 -> 300 of 300 0.00 pt, between -1.26 and +1.26; p 1 \
         (Fisher)",
        "WORSE ttft median x1.20; new above old in",
        "p95 790 ms (",
        "(no test)",
        "REGRESSION in 1 of 1 cell. 3 tests, each p corrected for all of them (Holm), alpha 0.01",
    ] {
        assert!(said.contains(words), "`{words}` is not in\n{seen}");
    }
    fits(&seen);
    let same = place.run(&["compare", "--against", "old.jsonl", "same.jsonl"]);
    same.exits(0)
        .says("alpha/m/chat: no regression shown")
        .says("which does not show that there is none");
    // Getting better is none either.
    place
        .run(&["compare", "--against", "worse.jsonl", "old.jsonl"])
        .exits(0);
}

#[test]
fn the_document_of_a_regression_has_both_p_values_and_no_test_of_a_quantile() {
    let place = runs();
    let arguments = ["compare", "--against", "old.jsonl", "worse.jsonl"];
    let seen = place.run(&[&arguments[..], &["--format", "json"]].concat());
    let document = seen.exits(1).json();
    assert_eq!(
        (&document["schema"], &document["kind"]),
        (&1.into(), &"regression".into())
    );
    assert_eq!(
        (&document["regression"], &document["alpha"]),
        (&true.into(), &0.01.into())
    );
    let cell = &document["cells"][0];
    let share = &cell["shares"][1];
    assert_eq!(share["question"], "no interruption");
    assert_eq!(share["finding"], "worse");
    assert_eq!(
        share["new"],
        json!({ "n": 300, "good": 285, "undefined": 0 })
    );
    let (p, adjusted) = (&share["p"], &share["adjusted_p"]);
    assert!(p.as_f64().unwrap() < adjusted.as_f64().unwrap());
    assert_eq!(cell["ttft"]["finding"], "worse");
    let p95 = &cell["ttft_quantiles"][1];
    assert_eq!(p95["quantile"], 0.95);
    let bounds = ["lower_seconds", "seconds", "upper_seconds"].map(|key| p95["old"][key].as_f64());
    assert!(bounds.is_sorted() && bounds[0].is_some(), "{p95}");
    assert!(p95.get("p").is_none() && p95["old"].get("p").is_none());
}

#[test]
fn folders_are_compared_cell_by_cell() {
    let place = Place::new();
    for folder in ["old", "new"] {
        fs::create_dir(place.path().join(folder)).unwrap();
    }
    let beta = |cut, run| Made {
        relay: "beta",
        cut,
        run,
        ..RELAY
    };
    RELAY.write(&place, "old/alpha.jsonl");
    beta(0, "r1").write(&place, "old/beta.jsonl");
    beta(60, "r2").write(&place, "new/beta.jsonl");
    let alone = ["compare", "--against", "old", "new"];
    place
        .run(&alone)
        .exits(1)
        .says("beta/m/chat: REGRESSION")
        .complains("not compared: alpha/m/chat: not among the new cells");
    RELAY.write(&place, "new/alpha.jsonl");
    place
        .run(&alone)
        .exits(1)
        .says("alpha/m/chat: no regression shown")
        .says("REGRESSION in 1 of 2 cells. 6 tests");
    let metric = [&alone[..], &["--metric", "http_success"]].concat();
    place.run(&metric).exits(0).says("4 tests");
}

#[test]
fn what_cannot_be_read_or_was_not_measured_ends_with_4_and_a_wrong_command_with_2() {
    let place = few_and(200);
    place.write("torn.jsonl", "{");
    place.write("wrong.jsonl", "{\"schema\": 99}\n");
    let nothing = Made { n: 0, ..RELAY };
    nothing.write(&place, "nothing.jsonl");
    let unfit = Made {
        invalid: Some("client saturated"),
        relay: "unfit",
        ..RELAY
    };
    unfit.write(&place, "unfit.jsonl");
    fs::create_dir(place.path().join("empty")).unwrap();
    let (few, many) = ("few.jsonl", "many.jsonl");
    for (arguments, code, words) in [
        (&[few, many, "none.jsonl"][..], 4, "none.jsonl"),
        (&[few, many, "torn.jsonl"], 4, "torn.jsonl"),
        (&[few, many, "wrong.jsonl"], 4, "format 99"),
        (&[few, many, "empty"], 4, "no evidence"),
        (&[few, "none.jsonl"], 4, "fewer than two"),
        (
            &[few, many, "unfit.jsonl"],
            4,
            "its run is invalid (client saturated)",
        ),
        (&["--against", "none.jsonl", few], 4, "none.jsonl"),
        (&["--against", few, "none.jsonl"], 4, "none.jsonl"),
        (
            &["--against", "nothing.jsonl", few],
            4,
            "nothing was measured in the old run",
        ),
        (
            &["--against", few, "nothing.jsonl"],
            4,
            "nothing was measured in the new run",
        ),
        (
            &["--against", few, "unfit.jsonl"],
            4,
            "the new run is invalid",
        ),
        (&[few], 2, "one cell alone"),
        (&[few, few], 2, "one cell alone"),
        (&[], 2, "EVIDENCE"),
        (
            &[few, many, "--metric", "useable"],
            2,
            "did you mean `usable`?",
        ),
        (&[few, many, "--metric", "ttft"], 2, "write `ttft < 1.5s`"),
        (&[few, many, "--confidence", "40%"], 2, "above 50%"),
        (&[few, many, "--confidence", "0.95"], 2, "write `95%`"),
        (&["--against", few, many, "--sides", "one"], 2, "--sides"),
    ] {
        let arguments = [&["compare"], arguments].concat();
        place.run(&arguments).exits(code).complains(words);
    }
    let forced = place.run(&["compare", few, "unfit.jsonl", "--force"]);
    forced.exits(0).says("its run is invalid");
    let unmeasured = place.run(&["compare", few, many, "nothing.jsonl"]);
    unmeasured
        .exits(0)
        .says("not ranked: alpha/m/chat: nothing was measured");
    // A copy makes the name of an old cell ambiguous.
    fs::create_dir(place.path().join("twice")).unwrap();
    for copy in ["twice/one.jsonl", "twice/two.jsonl"] {
        fs::copy(place.path().join(few), place.path().join(copy)).unwrap();
    }
    place
        .run(&["compare", "--against", "twice", few])
        .exits(2)
        .complains("more than one old cell is called few/m/chat");
}

/// Two relays of one run, one of which breaks off half of its answers; only the other one has a
/// price.
const SPEC: &str = "relayproof: 1
name: two
relays:
  - name: whole
    simulate: { first_token: 5ms, token_gap: 4ms, tokens: 16 }
    pricing: { simulated: { input: 1, output: 2, multiplier: 0.5 } }
  - name: cutting
    simulate: { first_token: 5ms, token_gap: 4ms, tokens: 16, faults: [{ truncate: 50% }] }
sampling: { rate: 40/s, max_samples: 40 }
judge: { method: wilson }
slos: [parse_success >= 50%, interruption < 50%]
";

#[test]
fn runs_of_the_embedded_relay_are_ranked_with_prices_and_compared() {
    let place = Place::new();
    place.write("s.yaml", SPEC);
    place.run(&["run", "s.yaml", "--run-id", "r"]);
    // This machine may be too busy to start in time, which is not what is tested here.
    let by_bytes = ["--metric", "interruption", "--force"];
    let ranked = [&["compare", "runs/r", "--format", "json"], &by_bytes[..]].concat();
    let document = place.run(&ranked).exits(0).json();
    let ranking = &document["rankings"][0];
    let [whole, cutting] = ranking["relays"].as_array().unwrap().as_slice() else {
        panic!("{document}");
    };
    assert_eq!(
        (&whole["relay"], &whole["place"]),
        (&"whole".into(), &1.into())
    );
    assert_eq!(
        (&cutting["relay"], &cutting["place"]),
        (&"cutting".into(), &2.into())
    );
    assert_eq!(ranking["neighbours"][0]["tied"], false);

    // What was paid, from the evidence by hand.
    let files = fs::read_dir(place.of_run("r")).unwrap();
    let of_whole = files
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("whole")
        })
        .unwrap();
    let samples = evidence::read(&of_whole).unwrap().samples;
    let paid: f64 = samples
        .iter()
        .flat_map(|sample| &sample.attempts)
        .map(|attempt| {
            let usage = attempt.observation.usage.unwrap();
            let (input, output) = (usage.input.unwrap(), usage.output.unwrap());
            (input as f64 + 2.0 * output as f64) * 0.5 / 1e6
        })
        .sum();
    let price = &whole["price"];
    assert!(paid > 0.0);
    assert!(
        (price["usd"].as_f64().unwrap() - paid).abs() < 1e-12,
        "{price}"
    );
    assert_eq!(price["unknown_samples"], 0);
    assert_eq!(cutting["price"]["usd"], Value::Null);

    // The relay that was whole yesterday breaks off today.
    let today = SPEC
        .replace("name: whole", "name: gone")
        .replace("name: cutting", "name: whole")
        .replace(
            "    pricing: { simulated: { input: 1, output: 2, multiplier: 0.5 } }\n",
            "",
        );
    place.write("today.yaml", &today);
    place.run(&["run", "today.yaml", "--run-id", "today"]);
    let against = ["compare", "--against", "runs/r", "runs/today"];
    let seen = place.run(&[&against[..], &by_bytes].concat());
    seen.exits(1).says("whole/simulated/default: REGRESSION");
    fits(&seen);
    // And against itself nothing is worse.
    let same = ["compare", "--against", "runs/r", "runs/r", "--force"];
    place.run(&same).exits(0).says("no regression shown");
}
