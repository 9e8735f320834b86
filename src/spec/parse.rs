//! The document as a whole: from the tree to a [`Spec`], or every mistake.

use std::collections::BTreeMap;
use std::ops::Range;

use sha2::{Digest, Sha256};

use super::error::SpecError;
use super::inherit;
use super::interpolate;
use super::reader::{Fields, Item, MOST_ITEMS, Reader};
use super::relay::{self, RelaySpec};
use super::settings::{self, Drawing, Settings};
use super::tree::{Node, Value};
use super::{Baseline, Exclusion, Spec, SpecErrors, campaign, coherence, secret, tree, workload};
use crate::plan::window::Window;
use crate::plan::{OtelSettings, Region, Scope, Timing, Workload};
use crate::words::{did_you_mean, hex, listed};

/// Reads a spec; see [`super::parse()`].
pub(super) fn parse(
    source: &str,
    text: &str,
    env: interpolate::Env<'_>,
) -> Result<Spec, SpecErrors> {
    let sha256 = hex(&Sha256::digest(text));
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut root = match tree::read(text) {
        Ok(root) => root,
        Err(error) => {
            let masked = secret::mask_unread(text);
            return Err(SpecErrors::new(source, masked, vec![error]));
        }
    };
    let masked = secret::mask(text, &root);
    let reader = Reader::new(&masked);
    super::reader::refuse_duplicates(&reader, &root);
    interpolate::fill(&reader, &mut root, env);
    let draft = document(&reader, &root, env);
    let errors = reader.into_errors();
    match draft {
        Some(draft) if errors.is_empty() => Ok(Spec {
            name: draft.name.unwrap_or_else(|| stem(source)),
            source: source.to_owned(),
            text: masked,
            sha256,
            relays: draft.relays,
            workloads: draft.workloads,
            excluded: draft.excluded,
            settings: draft.settings,
            profiles: draft.profiles,
            otel: draft.otel,
            windows: draft.windows,
            regions: draft.regions,
            baseline: draft.baseline,
        }),
        _ => Err(SpecErrors::new(source, masked, errors)),
    }
}

/// Everything that the text says.
struct Draft {
    name: Option<String>,
    relays: Vec<RelaySpec>,
    workloads: Vec<Workload>,
    excluded: Vec<Exclusion>,
    settings: Settings,
    profiles: BTreeMap<String, Settings>,
    otel: OtelSettings,
    windows: Vec<Window>,
    regions: Vec<Region>,
    baseline: Option<Baseline>,
}

fn document(r: &Reader<'_>, root: &Node, env: interpolate::Env<'_>) -> Option<Draft> {
    if root.value == Value::Null {
        return r.refuse(
            SpecError::new(0..0, "this spec is empty")
                .label("nothing is written here")
                .help("begin with `relayproof: 1`, `relays:` and `slos:`"),
        );
    }
    let item = Item {
        node: root,
        key_span: root.span.clone(),
        path: String::new(),
    };
    if !matches!(root.value, Value::Map(_)) {
        return r.refuse(
            SpecError::new(root.span.clone(), "a spec is a map")
                .label(format!("expected a map, found {}", root.kind()))
                .help("begin with `relayproof: 1`, `relays:` and `slos:`"),
        );
    }
    let mut map = item.map(r)?;
    version(r, &mut map);
    let name = map
        .get(r, "name")
        .and_then(|item| relay::name(r, &item))
        .map(str::to_owned);
    map.get(r, "vars");
    let relays = relays(r, &mut map);
    let workloads = match map.get(r, "workloads") {
        Some(item) => workloads(r, &item),
        None => Some(vec![workload::built_in()]),
    };
    if let (Some(relays), Some(workloads)) = (&relays, &workloads) {
        few_cells(r, relays, workloads)?;
    }
    let excluded = match map.get(r, "matrix") {
        Some(item) => {
            // Names of parts that could not be read are not missing.
            let relays = relays
                .as_deref()
                .filter(|all| all.len() == listed_in(root, "relays"));
            let workloads = workloads
                .as_deref()
                .filter(|all| all.len() == listed_in(root, "workloads").max(1));
            matrix(r, &item, relays, workloads)
        }
        None => Some(Vec::new()),
    };
    let otel = match map.get(r, "otel") {
        Some(item) => super::telemetry::otel(r, &item, env),
        None => Some(OtelSettings::default()),
    };
    let settings = overlayable(r, root, &mut map);
    let profiles = match map.get(r, "profiles") {
        Some(item) => profiles(r, root, &item),
        None => Some(BTreeMap::new()),
    };
    let windows = match map.get(r, "windows") {
        Some(item) => campaign::windows(r, &item),
        None => Some(Vec::new()),
    };
    let regions = match map.get(r, "regions") {
        Some(item) => campaign::regions(r, &item),
        None => Some(Vec::new()),
    };
    let baseline = map
        .get(r, "baseline")
        .map(|item| campaign::baseline(r, &item, root.child("defaults")));
    map.close(r, &[]);

    // What was read is checked against each other even where another part is broken.
    let (relays, settings, profiles) = (relays?, settings, profiles);
    for settings in settings
        .iter()
        .chain(profiles.iter().flat_map(BTreeMap::values))
    {
        coherence::check(r, &relays, settings);
    }
    let (windows, regions) = (windows?, regions?);
    let baseline = match baseline {
        Some(read) => Some(read?),
        None => None,
    };
    let parts = campaign::Parts {
        root,
        windows: &windows,
        regions: &regions,
        baseline: baseline.as_ref(),
        holds_open: workloads
            .as_ref()
            .is_some_and(|all| all.iter().any(|it| it.concurrency.is_some())),
    };
    campaign::check_relays(r, &relays, &parts);
    let calibrated = baseline.as_ref().is_some_and(|it| it.calibration.is_some());
    let taken = workloads
        .iter()
        .flatten()
        .any(|it| it.name == workload::CALIBRATION);
    if calibrated && taken {
        r.note(
            SpecError::new(0..0, "two workloads are called `calibration`")
                .label("`baseline.calibration` asks one of that name")
                .help("rename the workload"),
        );
    }
    for settings in settings
        .iter()
        .chain(profiles.iter().flat_map(BTreeMap::values))
    {
        campaign::check(r, &parts, settings);
    }
    Some(Draft {
        name,
        relays,
        workloads: workloads?,
        excluded: excluded?,
        settings: settings?,
        profiles: profiles?,
        otel: otel?,
        windows,
        regions,
        baseline,
    })
}

/// Most combinations of relay, model and workload.
const MOST_CELLS: usize = 10_000;

/// Refuses more combinations than anybody can mean.
fn few_cells(r: &Reader<'_>, relays: &[RelaySpec], workloads: &[Workload]) -> Option<()> {
    let models: usize = relays.iter().map(|relay| relay.models.len()).sum();
    let cells = models * workloads.len();
    if cells <= MOST_CELLS {
        return Some(());
    }
    r.refuse(
        SpecError::new(0..0, "this spec has too many cells")
            .label(format!(
                "relays × models × workloads are {cells}; the limit is {MOST_CELLS}"
            ))
            .help("split it into several specs"),
    )
}

/// How many items the list under a key has.
fn listed_in(root: &Node, key: &str) -> usize {
    match root.child(key).map(|node| &node.value) {
        Some(Value::List(items)) => items.len(),
        _ => 0,
    }
}

fn version(r: &Reader<'_>, map: &mut Fields<'_>) {
    let item = map.need(
        r,
        "relayproof",
        "begin with the spec's version: `relayproof: 1`",
    );
    if let Some(item) = item
        && item.node.value != Value::Int(1)
    {
        r.note(
            SpecError::new(item.span(), "unknown spec version")
                .label(format!("found {}, expected `1`", item.shown(r)))
                .help("this version of relayproof reads `relayproof: 1`"),
        );
    }
}

/// `sampling`, `judge` and `slos` of the document, or of a profile laid over it.
fn overlayable(r: &Reader<'_>, tree: &Node, map: &mut Fields<'_>) -> Option<Settings> {
    let drawing = match map.get(r, "sampling") {
        Some(item) => settings::drawing(r, &item),
        None => Some(Drawing::default()),
    };
    let judge = match map.get(r, "judge") {
        Some(item) => settings::judging(r, &item),
        None => Some((settings::usual_judging(), None)),
    };
    let slos = if tree.child("slos").is_some() {
        map.get(r, "slos").and_then(|item| settings::slos(r, &item))
    } else {
        map.need(r, "slos", "say what is promised: `slos: [ttft.p95 < 1.5s]`");
        None
    };
    let (drawing, (mut judge, scope)) = (drawing?, judge?);
    judge.scope = match drawing.timing() {
        Timing::Soak => Scope::Campaign,
        Timing::Burst => Scope::Run,
    };
    Some(Settings {
        drawing,
        judge,
        scope,
        slos: slos?,
    })
}

fn profiles(r: &Reader<'_>, root: &Node, item: &Item<'_>) -> Option<BTreeMap<String, Settings>> {
    let map = item.map(r)?;
    let mut profiles = BTreeMap::new();
    if map.free().count() > MOST_ITEMS {
        return r.refuse(
            SpecError::new(item.key_span.clone(), "`profiles` is too long")
                .label(format!("the limit is {MOST_ITEMS}"))
                .help("split the spec"),
        );
    }
    for (entry, item) in map.free() {
        if let Some(settings) = profile(r, root, &item) {
            profiles.insert(entry.key.clone(), settings);
        }
    }
    Some(profiles)
}

/// A profile laid over the document.
fn profile(r: &Reader<'_>, root: &Node, item: &Item<'_>) -> Option<Settings> {
    let mut own = item.map(r)?;
    for key in ["sampling", "judge", "slos"] {
        own.get(r, key);
    }
    own.close(r, &["relays", "workloads", "defaults"]);
    let laid_over = |key: &str| matches!(key, "sampling" | "judge" | "slos");
    let Value::Map(entries) = &root.value else {
        return None;
    };
    let entries = entries.iter().filter(|entry| laid_over(&entry.key));
    let base = Node {
        value: Value::Map(entries.cloned().collect()),
        ..root.clone()
    };
    let laid = inherit::overlay(&base, item.node);
    let laid_item = Item {
        node: &laid,
        key_span: item.key_span.clone(),
        path: String::new(),
    };
    let mut map = laid_item.map(r)?;
    overlayable(r, &laid, &mut map)
}

fn relays(r: &Reader<'_>, map: &mut Fields<'_>) -> Option<Vec<RelaySpec>> {
    let defaults = map.get(r, "defaults");
    if let Some(item) = &defaults {
        relay::read_defaults(r, item);
    }
    let item = map.need(
        r,
        "relays",
        "name the relay under test: `relays: [{ name: alpha, base_url: …, models: [ … ] }]`",
    )?;
    let items = item.filled_list(r, "relay")?;
    let Value::List(nodes) = &item.node.value else {
        return None;
    };
    let defaults = defaults.map(|item| item.node);
    let mut read: Vec<RelaySpec> = Vec::new();
    let mut places: BTreeMap<String, Range<usize>> = BTreeMap::new();
    for item in items {
        let own = item.node;
        unique(r, &mut places, own, "relay");
        let merged = inherit::relay(r, defaults, nodes, own);
        let item = Item {
            node: &merged,
            key_span: item.key_span,
            path: item.path,
        };
        read.extend(relay::read(r, &item, own));
    }
    Some(read)
}

fn workloads(r: &Reader<'_>, item: &Item<'_>) -> Option<Vec<Workload>> {
    let items = item.filled_list(r, "workload")?;
    let mut places = BTreeMap::new();
    let mut read = Vec::new();
    for item in items {
        unique(r, &mut places, item.node, "workload");
        read.extend(workload::read(r, &item));
    }
    Some(read)
}

/// Refuses the second use of a name.
fn unique(r: &Reader<'_>, places: &mut BTreeMap<String, Range<usize>>, node: &Node, what: &str) {
    let Some(name) = node.child("name") else {
        return;
    };
    let Value::Text(text) = &name.value else {
        return;
    };
    match places.get(text) {
        Some(first) => r.note(
            SpecError::new(
                name.span.clone(),
                format!("two {what}s are called `{text}`"),
            )
            .label("second time")
            .also(first.clone(), "first time")
            .help("tests are told apart by these names: rename one of the two"),
        ),
        None => {
            places.insert(text.clone(), name.span.clone());
        }
    }
}

fn matrix(
    r: &Reader<'_>,
    item: &Item<'_>,
    relays: Option<&[RelaySpec]>,
    workloads: Option<&[Workload]>,
) -> Option<Vec<Exclusion>> {
    let mut map = item.map(r)?;
    let excluded = map.get(r, "exclude").map(|item| {
        let items = item.filled_list(r, "exclusion")?;
        let read: Vec<_> = items
            .iter()
            .map(|item| exclusion(r, item, relays, workloads))
            .collect();
        read.into_iter().collect::<Option<Vec<_>>>()
    });
    map.close(r, &["include"]);
    let excluded = excluded.unwrap_or_else(|| Some(Vec::new()))?;
    if let (Some(relays), Some(workloads)) = (relays, workloads) {
        let cells = super::combinations(relays, workloads, &excluded);
        if cells.count() == 0 {
            return r.refuse(
                SpecError::new(
                    item.key_span.clone(),
                    "`matrix.exclude` leaves nothing to test",
                )
                .label("every combination is excluded")
                .help("remove an exclusion"),
            );
        }
    }
    Some(excluded)
}

fn exclusion(
    r: &Reader<'_>,
    item: &Item<'_>,
    relays: Option<&[RelaySpec]>,
    workloads: Option<&[Workload]>,
) -> Option<Exclusion> {
    let mut map = item.map(r)?;
    let mut fine = true;
    let mut part = |key: &'static str, names: Option<Vec<&str>>| {
        let item = map.get(r, key)?;
        let Some(wanted) = item.text(r) else {
            fine = false;
            return None;
        };
        if let Some(names) = names
            && !names.contains(&wanted)
        {
            let error = SpecError::new(item.span(), format!("there is no {key} `{wanted}`"))
                .label(format!("no {key} of this name"));
            r.note(match did_you_mean(wanted, names.iter().copied()) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help(format!("the {key}s are {}", listed(names.iter().copied()))),
            });
            fine = false;
        }
        Some(wanted.to_owned())
    };
    let relay = part(
        "relay",
        relays.map(|all| all.iter().map(|it| it.relay.name.as_str()).collect()),
    );
    let model = part(
        "model",
        relays.map(|all| {
            let mut models: Vec<&str> = all
                .iter()
                .flat_map(|it| it.models.iter().map(String::as_str))
                .collect();
            models.sort_unstable();
            models.dedup();
            models
        }),
    );
    let workload = part(
        "workload",
        workloads.map(|all| all.iter().map(|it| it.name.as_str()).collect()),
    );
    map.close(r, &["region"]);
    if !fine {
        return None;
    }
    if relay.is_none() && model.is_none() && workload.is_none() {
        return r.refuse(
            SpecError::new(item.span(), format!("`{}` excludes everything", item.path))
                .label("names neither `relay`, `model` nor `workload`")
                .help("write `{ relay: alpha, model: gpt-4o-mini }`"),
        );
    }
    let exclusion = Exclusion {
        relay,
        model,
        workload,
    };
    if let (Some(relays), Some(workloads)) = (relays, workloads) {
        let hit = super::combinations(relays, workloads, &[])
            .any(|(relay, model, workload)| exclusion.covers(relay, model, workload));
        if !hit {
            return r.refuse(
                SpecError::new(item.span(), format!("`{}` excludes nothing", item.path))
                    .label("no relay is asked for this combination")
                    .help("remove it"),
            );
        }
    }
    Some(exclusion)
}

/// The file's name without folder and extension.
fn stem(source: &str) -> String {
    let file = source.rsplit(['/', '\\']).next().unwrap_or(source);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    if stem.is_empty() { "spec" } else { stem }.to_owned()
}

/// Path of each key that the reader asks for while it reads this text.
#[cfg(test)]
pub(super) fn asked_for(text: &str) -> std::collections::BTreeSet<String> {
    let root = tree::read(text).unwrap();
    let reader = Reader::new(text);
    document(&reader, &root, &|_| None);
    reader.asked()
}
