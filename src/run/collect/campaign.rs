//! What all collectors of one evidence folder agree on: which plan, and when it began.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// Name of the file in an evidence folder that says which plan is collected there.
pub const NAME: &str = "campaign.json";

/// Largest such file that is read.
const MOST_BYTES: u64 = 64 * 1024;

/// Why a folder cannot be used for a soak.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is not what it should be.
    #[error("{} does not say which plan is collected here", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The folder is of another plan.
    #[error(
        "{} holds the evidence of another plan: of `{found}`, digest {found_digest}; this one is \
         `{wanted}`, digest {wanted_digest}. Name another folder (`--evidence`), or take the spec \
         as it was: what is asked and how it is judged may not change within a soak",
        folder.display()
    )]
    OtherPlan {
        /// The folder.
        folder: PathBuf,
        /// Spec name of its plan.
        found: String,
        /// Beginning of the digest of its plan.
        found_digest: String,
        /// Spec name of the plan asked for.
        wanted: String,
        /// Beginning of its digest.
        wanted_digest: String,
    },
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct Campaign {
    schema: u32,
    spec: String,
    plan_digest: String,
    started_unix_ns: u64,
}

/// From the first collecting to the beginning of a soak whose spec names none: no slot is missed
/// while its collector gets ready.
const READY: u64 = 1_000_000_000;

/// Makes the folder, and gives the moment from which the plan's slots count: that of the spec, else
/// a second after it was first collected into this folder, which is `now` if it never was.
///
/// # Errors
/// When the folder cannot be used, or holds the evidence of another plan.
pub(super) fn begin(folder: &Path, plan: &Plan, now: u64) -> Result<u64, CampaignError> {
    let io = |action, path: &Path| {
        let path = path.to_owned();
        move |source| CampaignError::Io {
            action,
            path,
            source,
        }
    };
    fs::create_dir_all(folder).map_err(io("make the evidence folder", folder))?;
    // Two that begin at the same moment would begin twice.
    let lock = folder.join("campaign.lock");
    let _held = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock)
        .and_then(|file| file.lock().map(|()| file))
        .map_err(io("lock", &lock))?;
    let path = folder.join(NAME);
    if let Some(campaign) = read(&path)? {
        if campaign.plan_digest != plan.digest {
            return Err(CampaignError::OtherPlan {
                folder: folder.to_owned(),
                found: campaign.spec,
                found_digest: short(&campaign.plan_digest),
                wanted: plan.name.clone(),
                wanted_digest: short(&plan.digest),
            });
        }
        return Ok(campaign.started_unix_ns);
    }
    let campaign = Campaign {
        schema: 1,
        spec: plan.name.clone(),
        plan_digest: plan.digest.clone(),
        started_unix_ns: plan
            .sampling
            .start_unix_ns
            .unwrap_or_else(|| now.saturating_add(READY)),
    };
    write(&path, &campaign).map_err(io("write", &path))?;
    Ok(campaign.started_unix_ns)
}

fn short(digest: &str) -> String {
    digest.chars().take(16).collect()
}

fn read(path: &Path) -> Result<Option<Campaign>, CampaignError> {
    let not_ours = || CampaignError::NotOurs {
        path: path.to_owned(),
    };
    match fs::metadata(path) {
        Ok(facts) if facts.len() > MOST_BYTES => return Err(not_ours()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(CampaignError::Io {
                action: "read",
                path: path.to_owned(),
                source,
            });
        }
    }
    let text = fs::read(path).map_err(|source| CampaignError::Io {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    let campaign: Campaign = serde_json::from_slice(&text).map_err(|_| not_ours())?;
    Ok(Some(campaign))
}

/// All of it, or nothing.
fn write(path: &Path, campaign: &Campaign) -> io::Result<()> {
    let draft = path.with_extension("json.new");
    let mut file = File::create(&draft)?;
    let mut text = serde_json::to_vec_pretty(campaign)?;
    text.push(b'\n');
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&draft, path)
}
