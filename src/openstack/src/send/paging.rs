//! Reads complete lists page by page.
//!
//! The links that services send lack the filters (Octavia) or name another host (behind a proxy). The client therefore
//! only checks whether there is a link, and sends the same query with the last id as its marker.

use std::marker::PhantomData;

use serde::{
    Deserialize,
    de::{DeserializeOwned, DeserializeSeed},
};

use crate::{
    cloud::Cloud,
    error::Error,
    request::Call,
    send::page_sizes::PAGE,
    wire::{Found, Keyed},
};
use capo_core::FailureClass;

/// If the answer is too large, the page is requested again in its size divided by this number. To an administrator,
/// Nova's list shows the user data of each server.
const DIVISOR: usize = 4;

/// No smaller pages are requested: if the answer is too large even so, the service ignores the limit.
const SMALLEST_PAGE: usize = 10;

/// A page without links that is shorter than this, and shorter than requested, is taken for the last one. Nothing in it
/// shows whether it is, and another request for every list would almost never find more. An operator who sets Nova's
/// `max_limit` (1000 by default) to less than this hides server groups from capo-rs, as docs/support-matrix.md says.
const SMALLEST_LIMIT: usize = 50;

/// The largest number of whole pages, and of accordingly more smaller ones. A longer list is a fault of the service.
const MOST_PAGES: usize = 100;

#[derive(Deserialize)]
struct Id {
    #[serde(default)]
    id: Option<String>,
}

impl Cloud {
    /// The value under `key` of the answer.
    pub(crate) async fn one<T: DeserializeOwned>(
        &self,
        call: Call,
        key: &'static str,
    ) -> Result<T, Error> {
        self.send(&call, |body| Ok(found(body, key)?.value)).await
    }

    /// The whole answer.
    pub(crate) async fn whole<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        self.send(&call, |body| serde_json::from_slice(body)).await
    }

    /// Sends a call and ignores the body of its answer.
    pub(crate) async fn done(&self, call: Call) -> Result<(), Error> {
        self.send(&call, |_| Ok(())).await
    }

    /// All objects under `key`, page by page. Each page starts after the last id of the one before it.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        call: Call,
        key: &'static str,
    ) -> Result<Vec<T>, Error> {
        let mut size = self.0.page_sizes.of(call.request);
        let mut all = Vec::new();
        let mut marker: Option<String> = None;
        let mut pages = 0;
        while pages < most_pages(size) {
            pages += 1;
            let mut page_call = call.clone();
            if let Some(marker) = &marker {
                page_call = page_call.query("marker", marker.clone());
            }
            let (page, last) = self
                .page(&page_call, &mut size, |body| page::<T>(body, key))
                .await?;
            let none = page.value.is_empty();
            all.extend(page.value);
            if !page.more || none {
                return Ok(all);
            }
            if last.is_none() || last == marker {
                return Err(Self::endless(&call));
            }
            marker = last;
        }
        Err(Self::endless(&call))
    }

    /// All objects under `key`, page by page by offset, for lists that have no link to the next page.
    pub(crate) async fn list_by_offset<T: DeserializeOwned>(
        &self,
        call: Call,
        key: &'static str,
    ) -> Result<Vec<T>, Error> {
        let mut size = self.0.page_sizes.of(call.request);
        let mut all: Vec<T> = Vec::new();
        let mut last_seen: Option<String> = None;
        let mut pages = 0;
        while pages < most_pages(size) {
            pages += 1;
            let page_call = call.clone().query("offset", all.len().to_string());
            let (page, last) = self
                .page(&page_call, &mut size, |body| {
                    Ok((found::<Vec<T>>(body, key)?.value, last_id(body, key)?))
                })
                .await?;
            // A service that ignores the offset sends the same page again.
            if page.is_empty() || (last.is_some() && last == last_seen) {
                return Ok(all);
            }
            // The service's page limit may be smaller than the requested one, so a page that is shorter than requested
            // need not be the last one. One that is shorter than any usual limit is.
            let complete = page.len() < SMALLEST_LIMIT.min(size);
            all.extend(page);
            if complete {
                return Ok(all);
            }
            last_seen = last;
        }
        Err(Self::endless(&call))
    }

    /// One page with up to `size` objects. If the answer is too large, `size` is reduced, for the rest of the list and
    /// for later lists of this kind, and the same page is requested again.
    async fn page<T>(
        &self,
        call: &Call,
        size: &mut usize,
        read: impl Fn(&[u8]) -> Result<T, serde_json::Error> + Copy + Send,
    ) -> Result<T, Error> {
        let known = *size;
        loop {
            let smaller = Some(*size / DIVISOR).filter(|smaller| *smaller >= SMALLEST_PAGE);
            let mut page_call = call.clone().query("limit", size.to_string());
            page_call.smaller_follows = smaller.is_some();
            let page = self.send(&page_call, read).await;
            if let (Err(error), Some(smaller)) = (&page, smaller)
                && error.is_too_large()
            {
                *size = smaller;
                continue;
            }
            // A size that did not help is not kept.
            if page.is_ok() && *size < known {
                self.0.page_sizes.keep(call.request, *size);
            }
            return page;
        }
    }

    fn endless(call: &Call) -> Error {
        Error::new(
            call.service,
            call.request,
            FailureClass::Transient,
            format!("{}: the list has no end", call.service),
        )
    }
}

/// The largest number of pages of this size.
fn most_pages(size: usize) -> usize {
    MOST_PAGES * PAGE / size
}

fn found<T: DeserializeOwned>(
    body: &[u8],
    key: &'static str,
) -> Result<Found<T>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let found = Keyed {
        key,
        value: PhantomData,
    }
    .deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(found)
}

/// The objects of a page, and the id of the last one if there are more pages.
fn page<T: DeserializeOwned>(
    body: &[u8],
    key: &'static str,
) -> Result<(Found<Vec<T>>, Option<String>), serde_json::Error> {
    let Found { value, more } = found::<Option<Vec<T>>>(body, key)?;
    let last = if more { last_id(body, key)? } else { None };
    let value = value.unwrap_or_default();
    Ok((Found { value, more }, last))
}

/// The id of the last object under `key`.
fn last_id(body: &[u8], key: &'static str) -> Result<Option<String>, serde_json::Error> {
    let ids: Found<Option<Vec<Id>>> = found(body, key)?;
    Ok(ids.value.unwrap_or_default().pop().and_then(|last| last.id))
}
