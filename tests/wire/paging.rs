//! Lists in pages, and lists whose pages never end.

use std::{collections::BTreeMap, time::Duration};

use capo_core::{FailureClass, Priority};
use capo_openstack::{
    ClientSettings, Cloud, Error, LeaseToken,
    compute::{Server, ServerFilter},
    image::ImageFilter,
};
use futures::future::join_all;
use serde_json::{Value, json};
use wiremock::{
    Mock, Request, Respond, ResponseTemplate,
    matchers::{method, path},
};

use super::{TestCloud, answer, cloud, cloud_with, ok, settings};

const MEMBERS: &str = "/lb/v2/lbaas/pools/p1/members";
const SERVERS: &str = "/compute/v2.1/servers/detail";
const GROUPS: &str = "/compute/v2.1/os-server-groups";

fn member(id: &str) -> Value {
    json!({"id": id, "name": id, "protocol_port": 6443, "provisioning_status": "ACTIVE"})
}

fn page(ids: &[&str], next: Option<&str>) -> ResponseTemplate {
    let members: Vec<_> = ids.iter().map(|id| member(id)).collect();
    let links = next.map(|href| json!([{"rel": "next", "href": href}]));
    ok(json!({"members": members, "members_links": links}))
}

/// Octavia's paging: two objects per page, a next link whenever the page is full, and no filters in the link.
struct Pages(Vec<&'static str>);

impl Respond for Pages {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let marker = request.url.query_pairs().find(|(key, _)| key == "marker");
        let from = marker.map_or(0, |(_, marker)| {
            self.0
                .iter()
                .position(|id| *id == marker)
                .map_or(0, |at| at + 1)
        });
        let ids: Vec<_> = self.0.iter().skip(from).take(2).copied().collect();
        page(
            &ids,
            (ids.len() == 2).then_some("http://other.example/v2/lbaas/x?marker=zzz"),
        )
    }
}

async fn mount(test: &TestCloud, pages: impl Respond + 'static) {
    Mock::given(method("GET"))
        .and(path(MEMBERS))
        .respond_with(pages)
        .mount(&test.server)
        .await;
}

#[tokio::test]
async fn pages_are_followed_by_our_own_query() {
    for (all, requests) in [
        (vec!["a", "b", "c", "d", "e"], 3),
        (vec!["a", "b", "c", "d"], 3),
        (vec![], 1),
    ] {
        let test = cloud().await;
        mount(&test, Pages(all.clone())).await;
        let found = test
            .cloud
            .members(&"p1".into(), Priority::Steady)
            .await
            .unwrap();
        let ids: Vec<_> = found.iter().map(|member| member.id.as_str()).collect();
        assert_eq!(ids, all);
        assert_eq!(test.requests("GET", MEMBERS).await.len(), requests);
    }
}

#[tokio::test]
async fn glance_has_its_own_link_to_the_next_page() {
    let test = cloud().await;
    let pages = |request: &Request| {
        let second = request
            .url
            .query_pairs()
            .any(|(key, value)| key == "marker" && value == "i1");
        if second {
            ok(json!({"images": [{"id": "i2"}], "schema": "x"}))
        } else {
            ok(json!({"images": [{"id": "i1"}], "next": "/v2/images?marker=i1"}))
        }
    };
    Mock::given(method("GET"))
        .and(path("/image/v2/images"))
        .respond_with(pages)
        .mount(&test.server)
        .await;
    let found = test
        .cloud
        .images(&ImageFilter::default(), Priority::Steady)
        .await
        .unwrap();
    assert_eq!(found.len(), 2);
}

#[tokio::test]
async fn a_list_without_end_is_an_error() {
    let test = cloud().await;
    answer(
        &test,
        "GET",
        MEMBERS,
        page(&["a", "b"], Some("http://h/next")),
    )
    .await;
    let error = test
        .cloud
        .members(&"p1".into(), Priority::Steady)
        .await
        .unwrap_err();
    assert_eq!(error.class(), FailureClass::Transient);
    assert_eq!(
        error.to_string(),
        "loadbalancer_member_list: load-balancer: the list has no end"
    );
    assert_eq!(
        test.requests("GET", MEMBERS).await.len(),
        2,
        "the same page again shows it"
    );

    let test = cloud().await;
    let growing = |request: &Request| {
        let marker = request.url.query_pairs().find(|(key, _)| key == "marker");
        let id = format!(
            "{}x",
            marker
                .map(|(_, marker)| marker.into_owned())
                .unwrap_or_default()
        );
        page(&[&id], Some("http://h/next"))
    };
    mount(&test, growing).await;
    let error = test
        .cloud
        .members(&"p1".into(), Priority::Steady)
        .await
        .unwrap_err();
    assert!(error.to_string().ends_with("the list has no end"));
    assert_eq!(test.requests("GET", MEMBERS).await.len(), 100);
}

/// Sends server groups by offset, at most `limit` per page, like Nova with `max_limit`.
struct Groups {
    ids: Vec<String>,
    limit: usize,
    /// Whether the service supports the parameter `offset`.
    reads_offset: bool,
    /// How many bytes each group has apart from its id and its name.
    more: usize,
}

impl Respond for Groups {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let query: BTreeMap<_, _> = request.url.query_pairs().into_owned().collect();
        let offset: usize = query["offset"].parse().unwrap();
        let page = self
            .ids
            .iter()
            .skip(if self.reads_offset { offset } else { 0 })
            .take(self.limit.min(query["limit"].parse().unwrap()))
            .map(|id| json!({"id": id, "name": id, "more": "x".repeat(self.more)}))
            .collect::<Vec<_>>();
        ok(json!({ "server_groups": page }))
    }
}

#[tokio::test]
async fn server_groups_are_complete_where_the_service_sends_smaller_pages() {
    // The number of groups, the service's limit, whether it supports offsets, and the number of calls.
    for (count, limit, reads_offset, calls) in [
        (250, 100, true, 4),
        (3, 1000, true, 1),
        (100, 100, true, 2),
        (120, 1000, false, 2),
        (0, 1000, true, 1),
    ] {
        let test = cloud().await;
        let ids: Vec<String> = (0..count).map(|number| format!("g{number:03}")).collect();
        Mock::given(path(GROUPS))
            .respond_with(Groups {
                ids: ids.clone(),
                limit,
                reads_offset,
                more: 0,
            })
            .mount(&test.server)
            .await;
        let found = test.cloud.server_groups(Priority::Steady).await.unwrap();
        let found: Vec<String> = found.into_iter().map(|group| group.id.into()).collect();
        assert_eq!(found, ids);
        let sent = test.requests("GET", GROUPS).await;
        assert_eq!(sent.len(), calls, "{count} groups, {limit} a page");
    }
}

/// A hundred servers with 1 kB of user data each, which Nova shows to an administrator.
struct Servers {
    /// Nova's own limit.
    limit: usize,
    /// Whether the service supports the parameter `limit`.
    reads_limit: bool,
}

impl Respond for Servers {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let query: BTreeMap<_, _> = request.url.query_pairs().into_owned().collect();
        let limit = if self.reads_limit {
            self.limit.min(query["limit"].parse().unwrap())
        } else {
            self.limit
        };
        let marker = query.get("marker");
        let from = marker.map_or(0, |id| id[1..].parse::<usize>().unwrap() + 1);
        let to = (from + limit).min(100);
        let servers: Vec<_> = (from..to)
            .map(|number| {
                let id = format!("s{number}");
                json!({"id": id, "name": id, "status": "ACTIVE",
                    "OS-EXT-SRV-ATTR:user_data": "x".repeat(1000)})
            })
            .collect();
        let next = json!({"rel": "next", "href": "http://other.example/next"});
        let links = if to - from == limit {
            vec![next]
        } else {
            vec![]
        };
        ok(json!({"servers": servers, "servers_links": links}))
    }
}

/// A cloud whose answers may be as large as fifteen of these servers.
async fn narrow_cloud(answers: impl Respond + 'static, at: &str) -> TestCloud {
    let narrow = ClientSettings {
        body_cap: 20 << 10,
        ..settings()
    };
    let test = cloud_with(narrow, LeaseToken::unlimited()).await;
    Mock::given(method("GET"))
        .and(path(at))
        .respond_with(answers)
        .mount(&test.server)
        .await;
    test
}

async fn servers(cloud: &Cloud) -> Result<Vec<Server>, Error> {
    let all = ServerFilter::default();
    cloud.servers(&all, Priority::Steady).await
}

/// The page limits of the requests so far.
async fn limits(test: &TestCloud, at: &str) -> Vec<usize> {
    let mut limits = Vec::new();
    for request in test.requests("GET", at).await {
        let query: BTreeMap<_, _> = request.url.query_pairs().into_owned().collect();
        limits.push(query["limit"].parse().unwrap());
    }
    limits
}

#[tokio::test]
async fn pages_that_are_too_large_are_read_in_smaller_ones() {
    let smaller = || vec![15_usize; 7];
    let found_out = || [vec![1000, 250, 62], smaller()].concat();
    // Nova's own limit, and the limits that the first list and the next one request.
    for (limit, first, next) in [
        (1000, found_out(), smaller()),
        (40, found_out(), smaller()),
        (12, vec![1000; 9], vec![1000; 9]),
    ] {
        let nova = Servers {
            limit,
            reads_limit: true,
        };
        let test = narrow_cloud(nova, SERVERS).await;
        let found = servers(&test.cloud).await.unwrap();
        let ids: Vec<String> = found.into_iter().map(|server| server.id.into()).collect();
        let all: Vec<String> = (0..100).map(|number| format!("s{number}")).collect();
        assert_eq!(ids, all);
        assert_eq!(limits(&test, SERVERS).await, first);
        assert_eq!(servers(&test.cloud).await.unwrap().len(), 100);
        let both = [first.clone(), next].concat();
        assert_eq!(limits(&test, SERVERS).await, both, "the limit is kept");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(3601)).await;
        tokio::time::resume();
        servers(&test.cloud).await.unwrap();
        let later = limits(&test, SERVERS).await.split_off(both.len());
        assert_eq!(later, first, "it is not kept for ever");
    }
}

#[tokio::test]
async fn answers_that_are_too_large_hold_no_list_back() {
    let nova = Servers {
        limit: 1000,
        reads_limit: true,
    };
    let test = narrow_cloud(nova, SERVERS).await;
    for found in join_all((0..6).map(|_| servers(&test.cloud))).await {
        assert_eq!(found.unwrap().len(), 100);
    }
    assert!(test.events.refused.lock().is_empty());
}

#[tokio::test]
async fn a_service_that_ignores_the_limit_is_asked_a_few_times() {
    let other = Servers {
        limit: 1000,
        reads_limit: false,
    };
    let test = narrow_cloud(other, SERVERS).await;
    for _ in 0..4 {
        let error = servers(&test.cloud).await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Transient);
        assert_eq!(
            error.to_string(),
            "server_list: compute: the answer is larger than 0 MiB"
        );
    }
    // Each list is one failure, and after the third one the service is left alone.
    let tried = limits(&test, SERVERS).await;
    assert_eq!(tried, [1000_usize, 250, 62, 15].repeat(3));
    assert_eq!(*test.events.refused.lock(), ["server_list"]);
}

#[tokio::test]
async fn server_groups_are_complete_where_their_pages_are_too_large() {
    let ids: Vec<String> = (0..40).map(|number| format!("g{number:03}")).collect();
    let groups = Groups {
        ids: ids.clone(),
        limit: 1000,
        reads_offset: true,
        more: 1000,
    };
    let test = narrow_cloud(groups, GROUPS).await;
    let found = test.cloud.server_groups(Priority::Steady).await.unwrap();
    let found: Vec<String> = found.into_iter().map(|group| group.id.into()).collect();
    assert_eq!(found, ids);
    let tried = limits(&test, GROUPS).await;
    assert_eq!(tried, [1000, 250, 62, 15, 15, 15]);
}
