//! Which pipeline runs us, and what it tests: the variables of three CI systems, as a table.
//!
//! Pure, through the caller's lookup. Addresses lose their user info, and what looks like a
//! secret is left out: a pipeline's variables are full of tokens.

use super::Lookup;
use super::clean::{looks_secret, repository_url, web_url};
use super::semconv;
use super::spans::bounded;

/// How an attribute's value comes out of variables.
#[derive(Clone, Copy)]
enum Source {
    /// The first of these that is set.
    First(&'static [&'static str]),
    /// An address for a browser.
    Web(&'static str),
    /// The first of these that is a repository's address.
    Repository(&'static [&'static str]),
    /// Always the same.
    Fixed(&'static str),
    /// Out of several variables.
    Made(fn(&Variables<'_>) -> Option<String>),
}

/// One CI system.
struct System {
    /// Whether it runs us.
    is_here: fn(&Variables<'_>) -> bool,
    /// What it says.
    attributes: &'static [(&'static str, Source)],
}

const SYSTEMS: &[System] = &[GITHUB, GITLAB, JENKINS];

const GITHUB: System = System {
    is_here: |variables| variables.is("GITHUB_ACTIONS", "true"),
    attributes: &[
        (
            semconv::CICD_PIPELINE_NAME,
            Source::First(&["GITHUB_WORKFLOW"]),
        ),
        (
            semconv::CICD_PIPELINE_RUN_ID,
            Source::First(&["GITHUB_RUN_ID"]),
        ),
        (
            semconv::CICD_PIPELINE_RUN_URL_FULL,
            Source::Made(github_run),
        ),
        (
            semconv::CICD_PIPELINE_TASK_NAME,
            Source::First(&["GITHUB_JOB"]),
        ),
        (semconv::VCS_PROVIDER_NAME, Source::Fixed("github")),
        (
            semconv::VCS_OWNER_NAME,
            Source::First(&["GITHUB_REPOSITORY_OWNER"]),
        ),
        (semconv::VCS_REPOSITORY_NAME, Source::Made(github_name)),
        (
            semconv::VCS_REPOSITORY_URL_FULL,
            Source::Made(github_repository),
        ),
        (
            semconv::VCS_REF_HEAD_NAME,
            Source::First(&["GITHUB_HEAD_REF", "GITHUB_REF_NAME"]),
        ),
        (semconv::VCS_REF_HEAD_TYPE, Source::Made(github_type)),
        (
            semconv::VCS_REF_HEAD_REVISION,
            Source::First(&["GITHUB_SHA"]),
        ),
        (
            semconv::VCS_REF_BASE_NAME,
            Source::First(&["GITHUB_BASE_REF"]),
        ),
        (semconv::VCS_CHANGE_ID, Source::Made(github_change)),
    ],
};

const GITLAB: System = System {
    is_here: |variables| variables.is("GITLAB_CI", "true"),
    attributes: &[
        (
            semconv::CICD_PIPELINE_NAME,
            Source::First(&["CI_PIPELINE_NAME"]),
        ),
        (
            semconv::CICD_PIPELINE_RUN_ID,
            Source::First(&["CI_PIPELINE_ID"]),
        ),
        (
            semconv::CICD_PIPELINE_RUN_URL_FULL,
            Source::Web("CI_PIPELINE_URL"),
        ),
        (
            semconv::CICD_PIPELINE_TASK_NAME,
            Source::First(&["CI_JOB_NAME"]),
        ),
        (
            semconv::CICD_PIPELINE_TASK_RUN_ID,
            Source::First(&["CI_JOB_ID"]),
        ),
        (
            semconv::CICD_PIPELINE_TASK_RUN_URL_FULL,
            Source::Web("CI_JOB_URL"),
        ),
        (semconv::VCS_PROVIDER_NAME, Source::Fixed("gitlab")),
        (
            semconv::VCS_OWNER_NAME,
            Source::First(&["CI_PROJECT_NAMESPACE"]),
        ),
        (
            semconv::VCS_REPOSITORY_NAME,
            Source::First(&["CI_PROJECT_NAME"]),
        ),
        (
            semconv::VCS_REPOSITORY_URL_FULL,
            Source::Repository(&["CI_PROJECT_URL", "CI_REPOSITORY_URL"]),
        ),
        (
            semconv::VCS_REF_HEAD_NAME,
            Source::First(&["CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"]),
        ),
        (semconv::VCS_REF_HEAD_TYPE, Source::Made(gitlab_type)),
        (
            semconv::VCS_REF_HEAD_REVISION,
            Source::First(&["CI_COMMIT_SHA"]),
        ),
        (
            semconv::VCS_REF_BASE_NAME,
            Source::First(&["CI_MERGE_REQUEST_TARGET_BRANCH_NAME"]),
        ),
        (
            semconv::VCS_CHANGE_ID,
            Source::First(&["CI_MERGE_REQUEST_IID"]),
        ),
    ],
};

const JENKINS: System = System {
    is_here: |variables| variables.get("JENKINS_URL").is_some(),
    attributes: &[
        (semconv::CICD_PIPELINE_NAME, Source::First(&["JOB_NAME"])),
        (
            semconv::CICD_PIPELINE_RUN_ID,
            Source::First(&["BUILD_NUMBER", "BUILD_ID"]),
        ),
        (
            semconv::CICD_PIPELINE_RUN_URL_FULL,
            Source::Web("BUILD_URL"),
        ),
        (
            semconv::CICD_PIPELINE_TASK_NAME,
            Source::First(&["STAGE_NAME"]),
        ),
        (
            semconv::VCS_REPOSITORY_URL_FULL,
            Source::Repository(&["GIT_URL", "GIT_URL_1"]),
        ),
        (semconv::VCS_REF_HEAD_NAME, Source::Made(jenkins_branch)),
        (semconv::VCS_REF_HEAD_TYPE, Source::Made(jenkins_type)),
        (
            semconv::VCS_REF_HEAD_REVISION,
            Source::First(&["GIT_COMMIT"]),
        ),
        (
            semconv::VCS_REF_BASE_NAME,
            Source::First(&["CHANGE_TARGET"]),
        ),
        (semconv::VCS_CHANGE_ID, Source::First(&["CHANGE_ID"])),
    ],
};

/// What the CI system that runs us says of the pipeline; nothing outside of one.
pub(super) fn detect(lookup: Lookup<'_>) -> Vec<(&'static str, String)> {
    let variables = Variables(lookup);
    let Some(system) = SYSTEMS.iter().find(|system| (system.is_here)(&variables)) else {
        return Vec::new();
    };
    system
        .attributes
        .iter()
        .filter_map(|(name, source)| {
            let value = match source {
                Source::First(names) => names.iter().find_map(|name| variables.get(name)),
                Source::Web(name) => variables.get(name).and_then(|url| web_url(&url)),
                Source::Repository(names) => names
                    .iter()
                    .find_map(|name| repository_url(&variables.get(name)?)),
                Source::Fixed(value) => Some((*value).to_owned()),
                Source::Made(make) => make(&variables),
            };
            let value = value.filter(|value| !looks_secret(value))?;
            Some((*name, bounded(&value).to_owned()))
        })
        .collect()
}

struct Variables<'a>(Lookup<'a>);

impl Variables<'_> {
    /// A value; empty counts as not set.
    fn get(&self, name: &str) -> Option<String> {
        let value = (self.0)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    fn is(&self, name: &str, expected: &str) -> bool {
        self.get(name).as_deref() == Some(expected)
    }
}

fn github_repository(variables: &Variables<'_>) -> Option<String> {
    let server = variables.get("GITHUB_SERVER_URL")?;
    let repository = variables.get("GITHUB_REPOSITORY")?;
    web_url(&format!("{}/{repository}", server.trim_end_matches('/')))
}

fn github_run(variables: &Variables<'_>) -> Option<String> {
    let run = variables.get("GITHUB_RUN_ID")?;
    web_url(&format!(
        "{}/actions/runs/{run}",
        github_repository(variables)?
    ))
}

fn github_name(variables: &Variables<'_>) -> Option<String> {
    let repository = variables.get("GITHUB_REPOSITORY")?;
    repository.rsplit('/').next().map(str::to_owned)
}

/// Of a pull request the type is `branch`, and the variable says so too.
fn github_type(variables: &Variables<'_>) -> Option<String> {
    variables
        .get("GITHUB_REF_TYPE")
        .filter(|kind| matches!(kind.as_str(), "branch" | "tag"))
}

/// The number in `refs/pull/17/merge`.
fn github_change(variables: &Variables<'_>) -> Option<String> {
    let reference = variables.get("GITHUB_REF")?;
    let number = reference.strip_prefix("refs/pull/")?.split('/').next()?;
    number
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| number.to_owned())
}

fn gitlab_type(variables: &Variables<'_>) -> Option<String> {
    let tag = variables.get("CI_COMMIT_TAG");
    Some(if tag.is_some() { "tag" } else { "branch" }.to_owned())
}

/// Of a pull request the branch it comes from, not the `PR-17` that Jenkins calls it.
fn jenkins_branch(variables: &Variables<'_>) -> Option<String> {
    ["CHANGE_BRANCH", "BRANCH_NAME", "GIT_LOCAL_BRANCH"]
        .iter()
        .find_map(|name| variables.get(name))
        .or_else(|| {
            let branch = variables.get("GIT_BRANCH")?;
            Some(branch.strip_prefix("origin/").unwrap_or(&branch).to_owned())
        })
}

fn jenkins_type(variables: &Variables<'_>) -> Option<String> {
    let branch = jenkins_branch(variables)?;
    let tag = variables.get("TAG_NAME").is_some_and(|tag| tag == branch);
    Some(if tag { "tag" } else { "branch" }.to_owned())
}

#[cfg(test)]
#[path = "ci/tests.rs"]
mod tests;
