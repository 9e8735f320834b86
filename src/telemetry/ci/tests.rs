//! The documented variables of each CI system, as one of its jobs sees them.

use std::collections::BTreeMap;

use super::*;

fn detected(variables: &[(&str, &str)]) -> BTreeMap<&'static str, String> {
    let lookup = |name: &str| {
        variables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    detect(&lookup).into_iter().collect()
}

fn expect(found: &BTreeMap<&'static str, String>, expected: &[(&'static str, &str)]) {
    let expected: BTreeMap<_, _> = expected
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    assert_eq!(*found, expected);
}

const PULL_REQUEST: &[(&str, &str)] = &[
    ("GITHUB_ACTIONS", "true"),
    ("GITHUB_WORKFLOW", "acceptance"),
    ("GITHUB_RUN_ID", "1658821493"),
    ("GITHUB_RUN_ATTEMPT", "1"),
    ("GITHUB_JOB", "relays"),
    ("GITHUB_SERVER_URL", "https://github.com"),
    ("GITHUB_REPOSITORY", "octo-org/gateway"),
    ("GITHUB_REPOSITORY_OWNER", "octo-org"),
    ("GITHUB_REF", "refs/pull/17/merge"),
    ("GITHUB_REF_NAME", "17/merge"),
    ("GITHUB_REF_TYPE", "branch"),
    ("GITHUB_HEAD_REF", "faster-first-token"),
    ("GITHUB_BASE_REF", "main"),
    ("GITHUB_SHA", "ffac537e6cbbf934b08745a378932722df287a53"),
    ("GITHUB_TOKEN", "ghs_canary0123456789abcdef"),
];

#[test]
fn a_pull_request_in_github_actions_is_described() {
    expect(
        &detected(PULL_REQUEST),
        &[
            ("cicd.pipeline.name", "acceptance"),
            ("cicd.pipeline.run.id", "1658821493"),
            (
                "cicd.pipeline.run.url.full",
                "https://github.com/octo-org/gateway/actions/runs/1658821493",
            ),
            ("cicd.pipeline.task.name", "relays"),
            ("vcs.provider.name", "github"),
            ("vcs.owner.name", "octo-org"),
            ("vcs.repository.name", "gateway"),
            (
                "vcs.repository.url.full",
                "https://github.com/octo-org/gateway",
            ),
            ("vcs.ref.head.name", "faster-first-token"),
            ("vcs.ref.head.type", "branch"),
            (
                "vcs.ref.head.revision",
                "ffac537e6cbbf934b08745a378932722df287a53",
            ),
            ("vcs.ref.base.name", "main"),
            ("vcs.change.id", "17"),
        ],
    );
}

#[test]
fn a_push_in_github_actions_is_no_change() {
    let mut variables: Vec<_> = PULL_REQUEST
        .iter()
        .copied()
        .filter(|(name, _)| !matches!(*name, "GITHUB_REF" | "GITHUB_REF_NAME"))
        .map(|(name, value)| match name {
            "GITHUB_HEAD_REF" | "GITHUB_BASE_REF" => (name, ""),
            _ => (name, value),
        })
        .collect();
    variables.extend([
        ("GITHUB_REF", "refs/tags/v1.2"),
        ("GITHUB_REF_NAME", "v1.2"),
    ]);
    let found = detected(&variables);
    assert_eq!(
        found.get("vcs.ref.head.name").map(String::as_str),
        Some("v1.2")
    );
    assert_eq!(found.get("vcs.change.id"), None);
    assert_eq!(found.get("vcs.ref.base.name"), None);
}

const MERGE_REQUEST: &[(&str, &str)] = &[
    ("GITLAB_CI", "true"),
    ("CI_PIPELINE_NAME", "acceptance"),
    ("CI_PIPELINE_ID", "1000"),
    (
        "CI_PIPELINE_URL",
        "https://gitlab.example/team/gateway/-/pipelines/1000",
    ),
    ("CI_JOB_NAME", "relays"),
    ("CI_JOB_ID", "50"),
    (
        "CI_JOB_URL",
        "https://gitlab.example/team/gateway/-/jobs/50",
    ),
    ("CI_PROJECT_NAMESPACE", "team"),
    ("CI_PROJECT_NAME", "gateway"),
    ("CI_PROJECT_URL", "https://gitlab.example/team/gateway"),
    (
        "CI_REPOSITORY_URL",
        "https://gitlab-ci-token:glcbt-canary64@gitlab.example/team/gateway.git",
    ),
    ("CI_MERGE_REQUEST_IID", "7"),
    ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "faster-first-token"),
    ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main"),
    ("CI_COMMIT_REF_NAME", "faster-first-token"),
    ("CI_COMMIT_SHA", "1ecfd275763eff1d6b4844ea3168962458c9f27a"),
    ("CI_JOB_TOKEN", "glcbt-canary64"),
];

#[test]
fn a_merge_request_in_gitlab_is_described() {
    expect(
        &detected(MERGE_REQUEST),
        &[
            ("cicd.pipeline.name", "acceptance"),
            ("cicd.pipeline.run.id", "1000"),
            (
                "cicd.pipeline.run.url.full",
                "https://gitlab.example/team/gateway/-/pipelines/1000",
            ),
            ("cicd.pipeline.task.name", "relays"),
            ("cicd.pipeline.task.run.id", "50"),
            (
                "cicd.pipeline.task.run.url.full",
                "https://gitlab.example/team/gateway/-/jobs/50",
            ),
            ("vcs.provider.name", "gitlab"),
            ("vcs.owner.name", "team"),
            ("vcs.repository.name", "gateway"),
            (
                "vcs.repository.url.full",
                "https://gitlab.example/team/gateway",
            ),
            ("vcs.ref.head.name", "faster-first-token"),
            ("vcs.ref.head.type", "branch"),
            (
                "vcs.ref.head.revision",
                "1ecfd275763eff1d6b4844ea3168962458c9f27a",
            ),
            ("vcs.ref.base.name", "main"),
            ("vcs.change.id", "7"),
        ],
    );
}

#[test]
fn the_token_in_gitlabs_repository_url_is_taken_out() {
    let variables: Vec<_> = MERGE_REQUEST
        .iter()
        .copied()
        .filter(|(name, _)| *name != "CI_PROJECT_URL")
        .collect();
    let found = detected(&variables);
    assert_eq!(
        found.get("vcs.repository.url.full").map(String::as_str),
        Some("https://gitlab.example/team/gateway")
    );
    assert!(!format!("{found:?}").contains("canary"));
}

#[test]
fn a_jenkins_build_is_described() {
    let variables = [
        ("JENKINS_URL", "https://jenkins.example/"),
        ("JOB_NAME", "team/gateway/PR-17"),
        ("BUILD_NUMBER", "153"),
        ("BUILD_ID", "153"),
        (
            "BUILD_URL",
            "https://admin:canary@jenkins.example/job/gateway/153/?token=canary",
        ),
        ("STAGE_NAME", "relays"),
        (
            "GIT_URL",
            "https://x-access-token:canary@git.example/team/gateway.git",
        ),
        ("GIT_COMMIT", "1ecfd275763eff1d6b4844ea3168962458c9f27a"),
        ("BRANCH_NAME", "PR-17"),
        ("CHANGE_ID", "17"),
        ("CHANGE_BRANCH", "faster-first-token"),
        ("CHANGE_TARGET", "main"),
    ];
    let found = detected(&variables);
    expect(
        &found,
        &[
            ("cicd.pipeline.name", "team/gateway/PR-17"),
            ("cicd.pipeline.run.id", "153"),
            (
                "cicd.pipeline.run.url.full",
                "https://jenkins.example/job/gateway/153",
            ),
            ("cicd.pipeline.task.name", "relays"),
            (
                "vcs.repository.url.full",
                "https://git.example/team/gateway",
            ),
            ("vcs.ref.head.name", "faster-first-token"),
            ("vcs.ref.head.type", "branch"),
            (
                "vcs.ref.head.revision",
                "1ecfd275763eff1d6b4844ea3168962458c9f27a",
            ),
            ("vcs.ref.base.name", "main"),
            ("vcs.change.id", "17"),
        ],
    );
}

#[test]
fn a_plain_jenkins_job_knows_its_branch_by_the_remote() {
    let found = detected(&[
        ("JENKINS_URL", "https://jenkins.example/"),
        ("GIT_BRANCH", "origin/main"),
        ("GIT_URL_1", "git@git.example:team/gateway.git"),
    ]);
    expect(
        &found,
        &[
            (
                "vcs.repository.url.full",
                "https://git.example/team/gateway",
            ),
            ("vcs.ref.head.name", "main"),
            ("vcs.ref.head.type", "branch"),
        ],
    );
}

#[test]
fn outside_of_a_pipeline_nothing_is_said() {
    let variables = [("BUILD_ID", "1"), ("JOB_NAME", "x"), ("CI", "true")];
    expect(&detected(&variables), &[]);
}

#[test]
fn a_value_that_looks_like_a_secret_is_left_out() {
    let found = detected(&[
        ("GITLAB_CI", "true"),
        ("CI_JOB_NAME", "glpat-canary0123456789"),
        ("CI_COMMIT_REF_NAME", "x"),
    ]);
    assert_eq!(found.get("cicd.pipeline.task.name"), None);
    assert_eq!(
        found.get("vcs.ref.head.name").map(String::as_str),
        Some("x")
    );
}
