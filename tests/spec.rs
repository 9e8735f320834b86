//! Specs as users write them: what is read, what is refused, and in which words.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it must be"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use proptest::prelude::*;
use relayproof::objective::Objective;
use relayproof::plan::{self, ConnectionMode, Endpoint, KeySource, Plan, Retry, Slot};
use relayproof::resolve::resolve;
use relayproof::spec::{self, SpecErrors};
use relayproof::stream::Timeouts;

/// Environment of every spec here.
fn env(name: &str) -> Option<String> {
    match name {
        "SPEC_TEST_RATE" => Some("30/min".to_owned()),
        "SPEC_TEST_SECRET" => Some("sk-from-the-environment".to_owned()),
        _ => None,
    }
}

/// Reads and resolves, as `relayproof check` does: the spec itself, then each of its profiles.
fn check(path: &str, text: &str) -> Result<Plan, SpecErrors> {
    let spec = spec::parse(path, text, &env)?;
    for profile in spec.profiles() {
        resolve(&spec, Some(profile))?;
    }
    resolve(&spec, None)
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn yaml_files(name: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no specs in {name}");
    files
}

#[test]
fn every_spec_of_this_repository_is_right() {
    for name in ["specs", "examples/consumer/specs", "tests/data/specs/good"] {
        for path in yaml_files(name) {
            let text = fs::read_to_string(&path).unwrap();
            let shown = path.file_name().unwrap().to_str().unwrap();
            if let Err(errors) = check(shown, &text) {
                panic!("{}\n{}", path.display(), errors.render(false));
            }
        }
    }
}

/// `UPDATE_GOLDEN=1 cargo test --test spec` writes what is said now; read the difference.
#[test]
fn every_mistake_is_said_in_the_words_on_file() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for path in yaml_files("tests/data/specs/bad") {
        let text = fs::read_to_string(&path).unwrap();
        let shown = path.file_name().unwrap().to_str().unwrap();
        let said = match check(shown, &text) {
            Ok(_) => panic!("{} has no mistake", path.display()),
            Err(errors) => errors.render(false),
        };
        let golden = path.with_extension("txt");
        if update {
            fs::write(&golden, &said).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != said {
            wrong.push(format!("{}:\n{said}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn spec_of(text: &str) -> Plan {
    check("test.yaml", text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

fn mistakes_of(text: &str) -> String {
    match check("test.yaml", text) {
        Ok(_) => panic!("no mistake in\n{text}"),
        Err(errors) => errors.render(false),
    }
}

/// The ten-line form with something more at its end.
fn ten_lines_and(more: &str) -> String {
    let text = fs::read_to_string(folder("tests/data/specs/good/ten-lines.yaml")).unwrap();
    text + more
}

fn everything() -> Plan {
    spec_of(&fs::read_to_string(folder("tests/data/specs/good/everything.yaml")).unwrap())
}

#[test]
fn the_ten_line_form_gets_every_default() {
    let plan = spec_of(&ten_lines_and(""));
    assert_eq!(plan.name, "test");
    assert_eq!(plan.cells.len(), 1);
    assert_eq!(plan.sampling.max_samples, 1175, "N90 of 99 %");
    assert_eq!(plan.sampling.rate_per_s, 2.0);
    assert_eq!(plan.sampling.warmup, 0);
    let cell = &plan.cells[0];
    assert_eq!(cell.name(), "alpha/gpt-4o-mini/default");
    assert_eq!(cell.max_tokens(), Some(128));
    assert_eq!(cell.relay.retry, Retry::default());
    assert_eq!(cell.relay.timeouts, Timeouts::default());
    assert_eq!(cell.relay.connection, ConnectionMode::Fresh);
    assert_eq!(
        cell.relay.api_key,
        Some(KeySource::Env("ALPHA_KEY".to_owned()))
    );
    assert_eq!(plan.judge.confidence_ppm, 950_000);
}

#[test]
fn a_p95_objective_alone_plans_232_samples() {
    let text = ten_lines_and("").replace("  - parse_success >= 99%\n  - interruption < 1%\n", "");
    assert_eq!(spec_of(&text).sampling.max_samples, 232);
}

#[test]
fn warnings_do_not_raise_the_number_of_samples() {
    let text = ten_lines_and("  - { expect: http_success >= 99.9%, severity: warn }\n");
    assert_eq!(spec_of(&text).sampling.max_samples, 1175);
}

#[test]
fn embedded_relays_alone_start_a_hundred_calls_a_second() {
    let text = "relayproof: 1\nrelays: [{ name: e, simulate: {} }]\nslos: [ttft.p95 < 1s]\n";
    let plan = spec_of(text);
    assert_eq!(plan.sampling.rate_per_s, 100.0);
    let Endpoint::Simulate(simulate) = &plan.cells[0].relay.endpoint else {
        panic!("not embedded");
    };
    assert_eq!(simulate.first_token, Duration::from_millis(120));
    assert_eq!(simulate.token_gap, Duration::from_millis(15));
    assert_eq!((simulate.tokens, simulate.tls), (64, false));
}

#[test]
fn cells_are_all_combinations_but_the_excluded() {
    let names: Vec<String> = everything().cells.iter().map(plan::Cell::name).collect();
    assert_eq!(
        names,
        [
            "alpha/gpt-4o-mini/chat",
            "alpha/gpt-4o-mini/unsealed",
            "alpha/vendor/claude-sonnet/chat",
            "beta/gpt-4o-mini/chat",
            "beta/gpt-4o-mini/unsealed",
            "beta/vendor/claude-sonnet/chat",
            "beta/vendor/claude-sonnet/unsealed",
            "gamma/gpt-4o-mini/chat",
            "gamma/vendor/claude-sonnet/chat",
            "raw/gpt-4o-mini/chat",
            "raw/gpt-4o-mini/unsealed",
            "embedded/gpt-4o-mini/chat",
            "embedded/gpt-4o-mini/unsealed",
        ]
    );
}

#[test]
fn the_nearest_value_wins_maps_merge_and_lists_are_replaced() {
    let plan = everything();
    let relay = |name: &str| {
        let cell = plan.cells.iter().find(|cell| cell.relay.name == name);
        &cell.unwrap().relay
    };
    let (alpha, beta, gamma) = (relay("alpha"), relay("beta"), relay("gamma"));
    assert_eq!(
        alpha.endpoint,
        Endpoint::Url("https://api.alpha.example/v1".to_owned())
    );
    assert_eq!(alpha.timeouts.idle, Duration::from_secs(5), "own");
    assert_eq!(
        alpha.timeouts.total,
        Duration::from_secs(90),
        "from defaults"
    );
    assert_eq!(
        alpha.retry.statuses,
        [429, 503],
        "the list of defaults, not the built-in one"
    );
    assert_eq!(alpha.headers.len(), 3, "own and inherited");
    assert_eq!(
        beta.timeouts.idle,
        Duration::from_secs(5),
        "from the relay it extends"
    );
    assert_eq!(beta.retry.backoff, Duration::ZERO);
    assert_eq!(beta.retry.factor, 1.5);
    assert_eq!(
        beta.api_key,
        Some(KeySource::File("keys/beta".to_owned())),
        "replaced whole"
    );
    assert_eq!(
        gamma.headers.len(),
        3,
        "a merge key is shallow: X-Region is not there"
    );
    assert_eq!(gamma.http, plan::HttpVersion::Http2);
    assert!(gamma.required && !alpha.required);
    let embedded = relay("embedded");
    assert_eq!(embedded.ca_file.as_deref(), Some("certs/private-ca.pem"));
    let ignored: Vec<bool> = plan
        .cells
        .iter()
        .map(|cell| cell.ignored.is_some())
        .collect();
    assert_eq!(ignored.iter().filter(|it| **it).count(), 4, "beta's only");
}

#[test]
fn placeholders_are_filled_in_and_keep_their_type() {
    let plan = everything();
    let cell = &plan.cells[0];
    assert_eq!(cell.model, "gpt-4o-mini");
    assert_eq!(cell.max_tokens(), Some(60));
    assert_eq!(cell.relay.headers["x-tenant"], "qa");
    assert_eq!(plan.sampling.rate_per_s, 0.5);
    assert!(
        cell.workload.messages[0]
            .content
            .contains(" ${vars.model} ")
    );
}

#[test]
fn a_profile_is_laid_over_the_spec() {
    let text = fs::read_to_string(folder("tests/data/specs/good/everything.yaml")).unwrap();
    let spec = spec::parse("everything.yaml", &text, &env).unwrap();
    let resolved = |profile| resolve(&spec, profile).unwrap();
    let (base, pr, strict) = (
        resolved(None),
        resolved(Some("pr")),
        resolved(Some("strict")),
    );
    assert_eq!(
        (base.sampling.max_samples, pr.sampling.max_samples),
        (400, 80)
    );
    assert_eq!(pr.judge.mode, plan::Mode::Guard);
    assert_eq!(pr.sampling.warmup, 2, "what a profile leaves out stays");
    assert_eq!(strict.cells[0].objectives.len(), 1, "a list is replaced");
    assert_eq!(strict.judge.confidence_ppm, 990_000);
    assert_ne!(base.digest, pr.digest);
}

#[test]
fn an_unknown_profile_is_refused_with_the_closest_one() {
    let spec = spec::parse("t.yaml", &ten_lines_and("profiles: { night: {} }\n"), &env).unwrap();
    let said = resolve(&spec, Some("nigth")).unwrap_err().render(false);
    assert!(
        said.contains("no profile `nigth`") && said.contains("did you mean `night`?"),
        "{said}"
    );
}

#[test]
fn guard_mode_needs_no_number_of_samples() {
    let few = "sampling: { max_samples: 10 }\n";
    assert!(mistakes_of(&ten_lines_and(few)).contains("can never pass"));
    spec_of(&ten_lines_and(&format!("{few}judge: {{ mode: guard }}\n")));
}

#[test]
fn the_three_ways_out_of_too_few_samples_lead_out() {
    let short = "sampling: { max_samples: 40 }\n";
    let said = mistakes_of(&ten_lines_and(short));
    assert!(said.contains("raise `max_samples` to 373"), "{said}");
    spec_of(&ten_lines_and("sampling: { max_samples: 373 }\n"));
    assert!(mistakes_of(&ten_lines_and("sampling: { max_samples: 372 }\n")).contains("can never"));
    let less = ten_lines_and(short)
        .replace("ttft.p95", "ttft.p90.9")
        .replace(">= 99%", ">= 90.9%")
        .replace("< 1%", "< 9.1%");
    spec_of(&less);
    spec_of(&ten_lines_and(&format!(
        "{short}judge: {{ mode: guard }}\n"
    )));
}

#[test]
fn a_single_look_has_its_own_least_number_of_samples() {
    let wilson = |n: u64| {
        ten_lines_and(&format!(
            "judge: {{ method: wilson }}\nsampling: {{ max_samples: {n} }}\n"
        ))
    };
    assert!(mistakes_of(&wilson(380)).contains("needs 381 samples"));
    spec_of(&wilson(381));
    let exact = |n: u64, more: &str| {
        ten_lines_and(&format!(
            "judge: {{ method: exact{more} }}\nsampling: {{ max_samples: {n} }}\n"
        ))
    };
    assert!(mistakes_of(&exact(298, "")).contains("needs 299 samples"));
    spec_of(&exact(299, ""));
    let said = mistakes_of(&exact(40, ""));
    assert!(said.contains("raise `max_samples` to 59"), "{said}");
    assert!(
        said.contains("40 clean samples prove at most 92.7%"),
        "{said}"
    );
    spec_of(&exact(40, ", mode: guard"));
    let sure = exact(458, ", confidence: 99%");
    assert!(mistakes_of(&sure).contains("needs 459 samples"));
}

#[test]
fn the_allowance_for_seals_is_two_percent_unless_a_workload_says_otherwise() {
    let with = |message: &str, allowance: &str| {
        ten_lines_and(&format!(
            "workloads:\n  - {{ name: w, messages: [{{ role: user, content: \"{message}\" }}]{allowance} }}\n"
        ))
    };
    let of = |text: &str| spec_of(text).cells[0].seal_allowance_ppm();
    assert_eq!(
        of(&ten_lines_and("")),
        Some(20_000),
        "the built-in prompt has one"
    );
    assert_eq!(of(&with("end with {{seal}}", "")), Some(20_000));
    assert_eq!(of(&with("no end", "")), None);
    let zero = with("end with {{seal}}", ", expect: { seal_allowance: 0% }");
    assert_eq!(of(&zero), Some(0));
    assert_ne!(
        spec_of(&zero).digest,
        spec_of(&with("end with {{seal}}", "")).digest
    );
    let idle = mistakes_of(&with("no end", ", expect: { seal_allowance: 1% }"));
    assert!(idle.contains("asks for a seal"), "{idle}");
    let much = mistakes_of(&with("{{seal}}", ", expect: { seal_allowance: 51% }"));
    assert!(much.contains("50% at most"), "{much}");
}

#[test]
fn a_design_without_failures_plans_the_fewest_samples_that_can_pass() {
    let zero =
        |more: &str| ten_lines_and(&format!("judge: {{ design_ratio: zero_failure }}\n{more}"));
    let plan = spec_of(&zero(""));
    assert_eq!(plan.sampling.max_samples, 299);
    assert!(plan.judge.design_ratio.is_infinite());
    let short = mistakes_of(&zero("sampling: { max_samples: 298 }\n"));
    assert!(short.contains("raise `max_samples` to 299"), "{short}");
    let usual = spec_of(&ten_lines_and("sampling: { max_samples: 1000 }\n"));
    let same = spec_of(&zero("sampling: { max_samples: 1000 }\n"));
    assert_ne!(usual.digest, same.digest);
    let typo = mistakes_of(&ten_lines_and("judge: { design_ratio: no_failure }\n"));
    assert!(
        typo.contains("a number from 2 to 20, or `zero_failure`"),
        "{typo}"
    );
}

#[test]
fn slots_are_reproducible_and_their_texts_unique() {
    let plan = everything();
    let cell = &plan.cells[0];
    let slots: Vec<_> = cell.slots(&plan.sampling).collect();
    assert_eq!(
        slots,
        everything().cells[0]
            .slots(&plan.sampling)
            .collect::<Vec<_>>()
    );
    assert_eq!(slots.len(), 402);
    assert!(slots[..2].iter().all(|slot| slot.warmup), "warm-ups first");
    assert!(slots[2..].iter().all(|slot| !slot.warmup));
    assert_eq!((slots[0].index, slots[1].index, slots[2].index), (0, 1, 0));
    assert!(slots.is_sorted_by_key(|slot| slot.start));
    for part in [
        |slot: &Slot| slot.id.clone(),
        |slot: &Slot| slot.nonce.clone(),
    ] {
        let distinct: BTreeSet<String> = slots.iter().map(part).collect();
        assert_eq!(distinct.len(), slots.len());
    }
    let other = plan.cells[1].slots(&plan.sampling).map(|slot| slot.id);
    let distinct: BTreeSet<String> = slots
        .iter()
        .map(|slot| slot.id.clone())
        .chain(other)
        .collect();
    assert_eq!(distinct.len(), 804, "no two cells share an id");
}

#[test]
fn another_seed_gives_other_starts_and_other_texts() {
    let plan = everything();
    let mut sampling = plan.sampling.clone();
    sampling.seed += 1;
    let cell = &plan.cells[0];
    let same = cell
        .slots(&plan.sampling)
        .zip(cell.slots(&sampling))
        .filter(|(a, b)| a.start == b.start || a.nonce == b.nonce)
        .count();
    assert_eq!(same, 0);
}

#[test]
fn each_run_asks_a_real_relay_with_texts_of_its_own_at_the_same_moments() {
    let plan = everything();
    let differing = |cell: &plan::Cell| {
        let one = cell.slots_of_run(&plan.sampling, "run-1");
        let two = cell.slots_of_run(&plan.sampling, "run-2");
        one.zip(two)
            .inspect(|(a, b)| assert_eq!(a.start, b.start))
            .filter(|(a, b)| a.id != b.id && a.nonce != b.nonce)
            .count()
    };
    let cell = |relay: &str| {
        plan.cells
            .iter()
            .find(|cell| cell.relay.name == relay)
            .unwrap()
    };
    assert_eq!(differing(cell("alpha")), 402);
    assert_eq!(differing(cell("embedded")), 0, "its faults follow the text");
}

/// Exponential gaps with mean m have variance m²; a beat, or a uniform draw, has far less.
#[test]
fn gaps_between_starts_are_exponential() {
    let plan = everything();
    let mut sampling = plan.sampling.clone();
    sampling.max_samples = 20_000;
    let starts: Vec<f64> = plan.cells[0]
        .slots(&sampling)
        .map(|slot| slot.start.as_secs_f64())
        .collect();
    let gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
    assert!(
        (mean * sampling.rate_per_s - 1.0).abs() < 0.03,
        "mean {mean}"
    );
    assert!(
        (variance / mean.powi(2) - 1.0).abs() < 0.1,
        "variance {variance}"
    );
}

#[test]
fn a_prompt_holds_its_nonce_and_asks_for_its_seal() {
    let plan = spec_of(&ten_lines_and(""));
    let cell = &plan.cells[0];
    let slot = cell.slots(&plan.sampling).next().unwrap();
    let seal = cell.seal(&slot).unwrap();
    let digits = seal.strip_prefix("END-").unwrap();
    assert!(
        digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit()),
        "{seal}"
    );
    let prompt = cell.prompt(&slot);
    let last = &prompt.messages.last().unwrap().content;
    assert!(last.contains(&slot.nonce), "{last}");
    assert!(
        last.ends_with(&format!("End your answer with `{seal}`.")),
        "{last}"
    );
    assert!(prompt.stream && prompt.usage);

    let unsealed = everything();
    let cell = unsealed
        .cells
        .iter()
        .find(|cell| cell.workload.name == "unsealed")
        .unwrap();
    assert_eq!(cell.seal(&slot), None);
}

#[test]
fn the_digest_changes_with_what_is_done_and_not_with_how_it_is_written() {
    let base = ten_lines_and("");
    let digest = |text: &str| spec_of(text).digest;
    let same = [
        format!("# a comment\n\n{base}"),
        base.replace("1.5s", "1.5s   # seconds"),
        base.replace("{ env: ALPHA_KEY }", "\n      env: ALPHA_KEY"),
        format!("\u{feff}{base}"),
        base.replace('\n', "\r\n"),
        format!("{base}otel: {{ trace_url: \"http://x/{{trace_id}}\" }}\n"),
        format!("{base}otel: {{ content: hash }}\n"),
        base.replace(
            "    models: [gpt-4o-mini]",
            "    models: [gpt-4o-mini]\n    pricing: { gpt-4o-mini: { input: 1, output: 2 } }",
        ),
    ];
    for text in same {
        assert_eq!(digest(&text), digest(&base), "{text}");
    }
    let other = [
        base.replace("1.5s", "1.6s"),
        base.replace("gpt-4o-mini", "gpt-4o"),
        base.replace("api.alpha", "api2.alpha"),
        base.replace("ALPHA_KEY", "OTHER_KEY"),
        format!("{base}sampling: {{ rate: 60/min }}\n"),
        format!("{base}judge: {{ stop: first }}\n"),
        format!("{base}defaults: {{ propagate: traceparent }}\n"),
        format!("{base}workloads: [{{ name: w, messages: [{{ role: user, content: hi }}] }}]\n"),
    ];
    let mut digests: BTreeSet<String> = other.iter().map(|text| digest(text)).collect();
    digests.insert(digest(&base));
    assert_eq!(digests.len(), other.len() + 1);
}

#[test]
fn a_cell_has_the_price_of_its_own_relay_and_model_or_none() {
    let plan = everything();
    let prices = |name: &str| -> Vec<_> {
        let of_relay = plan.cells.iter().filter(|cell| cell.relay.name == name);
        of_relay
            .map(|cell| {
                (
                    cell.model.as_str(),
                    cell.price.map(|price| price.multiplier),
                )
            })
            .collect()
    };
    let [mini, .., sonnet] = prices("alpha")[..] else {
        panic!("{:?}", prices("alpha"));
    };
    assert_eq!(mini, ("gpt-4o-mini", Some(0.8)));
    assert_eq!(sonnet, ("vendor/claude-sonnet", Some(1.0)));
    let price = plan.cells[0].price.unwrap();
    assert_eq!((price.cached_input, price.fx), (Some(0.075), None));
    // Beta extends alpha, but a price is what one relay charges.
    assert!(!prices("beta").is_empty());
    assert!(prices("beta").iter().all(|(_, price)| price.is_none()));
    assert!(prices("embedded").iter().all(|(_, price)| price.is_none()));
}

#[test]
fn secrets_are_neither_in_the_digest_nor_in_debug() {
    let text = fs::read_to_string(folder("tests/data/specs/good/everything.yaml")).unwrap();
    let canaries = ["PROXYCANARY", "ARGUMENTCANARY", "HEADERCANARY"];
    let plan = spec_of(&text);
    let spec = spec::parse("everything.yaml", &text, &env).unwrap();
    let shown = format!("{plan:?}{spec:?}");
    for canary in canaries {
        assert!(text.contains(canary));
        assert!(!shown.contains(canary), "{canary}");
        let changed = spec_of(&text.replace(canary, "another"));
        assert_eq!(changed.digest, plan.digest, "{canary}");
    }
}

#[test]
fn no_error_shows_a_secret_of_the_spec_or_of_the_environment() {
    for path in yaml_files("tests/data/specs/bad") {
        let text = fs::read_to_string(&path).unwrap();
        let errors = check("bad.yaml", &text).unwrap_err();
        let said = format!(
            "{}{}{errors}{errors:?}",
            errors.render(false),
            errors.render(true)
        );
        for secret in ["CANARY", "hunter2", "sk-from-the-environment"] {
            assert!(
                !said.contains(secret),
                "{}: {secret}\n{said}",
                path.display()
            );
        }
    }
}

#[test]
fn a_file_over_one_mebibyte_is_refused() {
    let text = ten_lines_and(&format!("# {}\n", "x".repeat(1 << 20)));
    assert!(mistakes_of(&text).contains("too large for a spec"));
}

#[test]
fn every_fault_of_the_embedded_relay_can_be_asked_for() {
    for name in relayproof::sim::Fault::NAMES {
        spec_of(&format!(
            "relayproof: 1\nrelays:\n  - {{ name: e, simulate: {{ faults: [{{ {name}: 2% }}] }} }}\n\
             slos: [ttft.p95 < 1s]\n"
        ));
    }
}

#[test]
fn the_columns_of_an_objective_are_where_it_is_written() {
    let plan = everything();
    let at = |text: &str| {
        let all = &plan.cells[0].objectives;
        let found = all.iter().find(|it| it.text == text).unwrap();
        (found.line, found.column)
    };
    let text = fs::read_to_string(folder("tests/data/specs/good/everything.yaml")).unwrap();
    for objective in ["ttft.p95 < 1.5s", "interruption < 2%"] {
        let line = text
            .lines()
            .position(|line| line.contains(objective))
            .unwrap();
        let column = text.lines().nth(line).unwrap().find(objective).unwrap();
        assert_eq!(at(objective), (line as u32 + 1, column as u32 + 1));
    }
}

/// Whole specs in the documentation are right: a block that begins with `relayproof: 1`.
#[test]
fn every_whole_spec_in_the_documentation_is_right() {
    for (name, least) in [("docs/spec.md", 2), ("README.md", 0)] {
        let Ok(text) = fs::read_to_string(folder(name)) else {
            assert_eq!(least, 0, "{name} is missing");
            continue;
        };
        let blocks: Vec<&str> = text
            .split("```yaml\n")
            .skip(1)
            .filter_map(|rest| rest.split("```").next())
            .filter(|block| block.contains("relayproof: 1\n"))
            .collect();
        assert!(blocks.len() >= least, "{name} shows no whole spec");
        for block in blocks {
            if let Err(errors) = check(name, block) {
                panic!("{}", errors.render(false));
            }
        }
    }
}

/// The arguments of `relayproof plan`, read as the command reads them.
#[derive(clap::Parser)]
struct PlanCommand {
    #[command(flatten)]
    args: relayproof::cli::plan::Args,
}

#[test]
fn the_plan_of_a_spec_is_printed_within_eighty_columns() {
    let mut out = Vec::new();
    let file = folder("tests/data/specs/good/ten-lines.yaml");
    let args = PlanCommand::parse_from([Path::new("plan"), &file]).args;
    let exit = relayproof::cli::plan::plan(&args, &mut out).unwrap();
    assert_eq!(exit, relayproof::cli::Exit::Pass);
    let text = String::from_utf8(out).unwrap();
    for line in text.lines().skip(1) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for part in [
        "373",
        "1,175 calls",
        "99.798%",
        "together",
        "2.54-8.68%",
        "alpha/gpt-4o-mini/default",
        "ALPHA_KEY",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn checking_reports_every_file_and_exits_with_two() {
    let mut out = Vec::new();
    let files = [
        folder("tests/data/specs/bad/tab.yaml"),
        folder("tests/data/specs/good/ten-lines.yaml"),
        folder("tests/data/specs/bad/names.yaml"),
        folder("tests/data/specs/there-is-none.yaml"),
    ];
    let exit = relayproof::cli::check::check(&files, &mut out).unwrap();
    assert_eq!(exit, relayproof::cli::Exit::Usage);
    let text = String::from_utf8(out).unwrap();
    for part in [
        "a tab cannot indent",
        "ok  ",
        "has 7 mistakes",
        "cannot read",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn bytes_that_are_no_utf8_have_a_place_and_a_way_out() {
    let latin1 = b"relayproof: 1\nname: caf\xe9\n".to_vec();
    let utf16 = b"\xff\xfer\0e\0".to_vec();
    for (bytes, parts) in [
        (
            latin1,
            ["bad.yaml:2:10", "no UTF-8", "save the file as UTF-8"],
        ),
        (utf16, ["bad.yaml:1:1", "UTF-16", "save the file as UTF-8"]),
    ] {
        let shown = spec::decode("bad.yaml", bytes).unwrap_err().render(false);
        for part in parts {
            assert!(shown.contains(part), "{part} is not in\n{shown}");
        }
    }
    assert_eq!(spec::decode("good.yaml", b"a".to_vec()).unwrap(), "a");
}

#[test]
fn no_character_of_a_spec_steers_the_terminal() {
    let text = "relayproof: 1\nname: \"a\u{9b}31m\u{202e}b\u{61c}\"\nbog\u{9b}us: 1\n";
    let shown = check("bad.yaml", text).unwrap_err().render(false);
    let steering = |c: char| relayproof::forms::steers(c) && c != '\n';
    assert!(!shown.contains(steering), "{shown:?}");

    for name in ["a\\u202Eb", "a\\u061Cb", "a\\u2066b"] {
        let text = format!("relayproof: 1\nname: \"{name}\"\n");
        let shown = check("bad.yaml", &text).unwrap_err().render(false);
        assert!(shown.contains("`name` cannot be a name"), "{shown}");
    }
}

/// Pieces that YAML and specs are made of, so that random text gets past the first line.
fn piece() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "relayproof: 1\n",
        "relays:",
        "slos:",
        "  - ",
        "- ",
        "\n",
        "\n  ",
        "\n    ",
        ": ",
        "name: ",
        "base_url: ",
        "https://a.example/v1",
        "models: ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "&a ",
        "*a",
        "<<: ",
        "ttft.p95 < 1.5s",
        "\"",
        "'",
        "|\n",
        ">",
        "#",
        "\t",
        "${vars.x}",
        "${env.X:-1}",
        "$${",
        "{{nonce}}",
        "api_key: ",
        "sampling: ",
        "max_samples: 100",
        "1.5s",
        "99%",
        "é",
        "\u{feff}",
        "\r\n",
        "---\n",
        "!!str ",
        "? ",
        "~",
        "extends: ",
        "simulate: ",
        "faults: ",
        "profiles: ",
        "matrix: ",
        "vars: ",
    ];
    prop_oneof![
        4 => prop::sample::select(PIECES).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(pieces in prop::collection::vec(piece(), 0..40)) {
        survives(&pieces.concat())?;
    }

    #[test]
    fn no_damage_to_a_spec_makes_the_reader_panic(
        at in 0.0..1.0_f64,
        cut in 0_usize..40,
        insert in piece(),
    ) {
        let text = include_str!("data/specs/good/everything.yaml");
        let boundary = |mut i: usize| {
            while !text.is_char_boundary(i) {
                i -= 1;
            }
            i
        };
        let from = boundary((at * text.len() as f64) as usize);
        let to = boundary((from + cut).min(text.len())).max(from);
        survives(&format!("{}{insert}{}", &text[..from], &text[to..]))?;
    }

    #[test]
    fn no_text_makes_the_grammar_panic(text in any::<String>()) {
        let _ = Objective::parse(&text);
    }
}

/// Either a plan, or at least one mistake that can be shown.
fn survives(text: &str) -> Result<(), TestCaseError> {
    if let Err(errors) = check("random.yaml", text) {
        prop_assert!(errors.count() > 0, "refused without a reason");
        prop_assert!(errors.render(false).starts_with("error: "));
        prop_assert!(!errors.to_string().is_empty());
    }
    Ok(())
}

/// An unknown key in each map makes the reader list the keys it knows there.
#[test]
fn every_key_that_is_read_is_in_the_documentation() {
    let text = "relayproof: 1\nzzzzzzzzzz: 1\nrelays:\n  \
        - name: a\n    zzzzzzzzzz: 1\n    base_url: https://a.example/v1\n    models: [m]\n    \
          api_key: { zzzzzzzzzz: 1 }\n    tls: { zzzzzzzzzz: 1 }\n    \
          timeouts: { zzzzzzzzzz: 1 }\n    retry: { zzzzzzzzzz: 1 }\n    proxy: { zzzzzzzzzz: 1 }\n    \
          pricing: { m: { zzzzzzzzzz: 1 } }\n  \
        - { name: b, simulate: { zzzzzzzzzz: 1 } }\n\
        workloads:\n  - name: w\n    zzzzzzzzzz: 1\n    \
          messages: [{ zzzzzzzzzz: 1 }]\n    expect: { zzzzzzzzzz: 1 }\n\
        matrix: { zzzzzzzzzz: 1, exclude: [{ zzzzzzzzzz: 1 }] }\n\
        sampling: { zzzzzzzzzz: 1, limits: { zzzzzzzzzz: 1 } }\n\
        judge: { zzzzzzzzzz: 1 }\nprofiles: { p: { zzzzzzzzzz: 1 } }\n\
        slos: [{ zzzzzzzzzz: 1 }]\notel: { zzzzzzzzzz: 1 }\n";
    let said = mistakes_of(text);
    assert_eq!(
        said.matches("the keys here are").count(),
        20,
        "one list a map:\n{said}"
    );
    let documented = fs::read_to_string(folder("docs/spec.md")).unwrap();
    let words: BTreeSet<&str> = documented
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect();
    for list in said.split("the keys here are ").skip(1) {
        let list = list.lines().next().unwrap();
        for key in list.split(", ").map(|key| key.trim_matches('`')) {
            assert!(words.contains(key), "docs/spec.md says nothing of `{key}`");
        }
    }
}

fn soak() -> Plan {
    spec_of(&fs::read_to_string(folder("tests/data/specs/good/soak.yaml")).unwrap())
}

#[test]
fn a_soak_is_spread_over_its_duration_and_judged_as_a_campaign() {
    let plan = soak();
    assert_eq!(plan.sampling.mode, plan::Timing::Soak);
    assert_eq!(plan.judge.scope, plan::Scope::Campaign);
    assert_eq!(plan.sampling.max_cost_usd, Some(25.0));
    let names: Vec<String> = plan.cells.iter().map(plan::Cell::name).collect();
    assert_eq!(
        names,
        [
            "alpha/gpt-4o-mini/default/hk",
            "alpha/gpt-4o-mini/default/usw",
            "beta/gpt-4o-mini/default/hk",
        ]
    );
    let week = Duration::from_secs(7 * 86_400);
    for (cell, wanted) in plan.cells.iter().zip([2420, 1613, 4032]) {
        let sampling = cell.sampling(&plan.sampling);
        let slots: Vec<Slot> = cell.slots(&sampling).collect();
        assert_eq!(slots.len(), wanted, "{}", cell.name());
        assert!(slots.is_sorted_by(|a, b| a.start <= b.start));
        assert!(slots.last().unwrap().start < week);
        // The first and the last day have their part of them.
        let early = slots.iter().filter(|slot| slot.start < week / 7).count();
        let late = slots
            .iter()
            .filter(|slot| slot.start > week * 6 / 7)
            .count();
        for part in [early, late] {
            let share = part as f64 / wanted as f64 * 7.0;
            assert!((0.8..1.2).contains(&share), "{}: {part}", cell.name());
        }
    }
}

#[test]
fn a_part_of_the_slots_is_asked_of_the_upstream_too_within_a_second_and_in_random_order() {
    let plan = soak();
    let (cell, upstream) = (&plan.cells[0], &plan.baselines[0]);
    assert_eq!(
        upstream.name(),
        "official/gpt-4o-mini/default/hk (beside alpha/gpt-4o-mini/default/hk)"
    );
    let sampling = cell.sampling(&plan.sampling);
    let own: Vec<Slot> = cell.slots(&sampling).collect();
    let pairs: Vec<Slot> = upstream
        .paired_slots(cell, &sampling, plan.pair_ppm)
        .collect();
    let share = pairs.len() as f64 / own.len() as f64;
    assert!((0.17..0.23).contains(&share), "{share}");
    let mut first = 0;
    for pair in &pairs {
        let slot = &own[usize::try_from(pair.index).unwrap()];
        assert_eq!((slot.index, &slot.nonce), (pair.index, &pair.nonce));
        assert_ne!(slot.id, pair.id);
        assert!(slot.start.abs_diff(pair.start) <= Duration::from_millis(500));
        first += usize::from(pair.start < slot.start);
    }
    let share = first as f64 / pairs.len() as f64;
    assert!(
        (0.4..0.6).contains(&share),
        "the upstream goes first in {share}"
    );
}

#[test]
fn a_profile_draws_the_samples_of_a_soak_now() {
    let text = fs::read_to_string(folder("tests/data/specs/good/soak.yaml")).unwrap();
    let spec = spec::parse("soak.yaml", &text, &env).unwrap();
    let plan = resolve(&spec, Some("pr")).unwrap();
    assert_eq!(plan.sampling.mode, plan::Timing::Burst);
    assert_eq!(plan.judge.scope, plan::Scope::Run);
    assert_eq!(
        (plan.sampling.duration, plan.sampling.start_unix_ns),
        (None, None)
    );
    assert!(plan.baselines.is_empty(), "a burst is not paired");
}
