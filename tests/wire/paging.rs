//! Lists in pages, and lists whose pages never end.

use std::collections::BTreeMap;

use capo_core::{FailureClass, Priority};
use capo_openstack::image::ImageFilter;
use serde_json::{Value, json};
use wiremock::{
    Mock, Request, Respond, ResponseTemplate,
    matchers::{method, path},
};

use super::{TestCloud, answer, cloud, ok};

const MEMBERS: &str = "/lb/v2/lbaas/pools/p1/members";

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
            .map(|id| json!({"id": id, "name": id}))
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
        Mock::given(path("/compute/v2.1/os-server-groups"))
            .respond_with(Groups {
                ids: ids.clone(),
                limit,
                reads_offset,
            })
            .mount(&test.server)
            .await;
        let found = test.cloud.server_groups(Priority::Steady).await.unwrap();
        let found: Vec<String> = found.into_iter().map(|group| group.id.into()).collect();
        assert_eq!(found, ids);
        let sent = test.requests("GET", "/compute/v2.1/os-server-groups").await;
        assert_eq!(sent.len(), calls, "{count} groups, {limit} a page");
    }
}
