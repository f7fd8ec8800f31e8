//! The files of the page, which are part of the program.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};

/// Path, type, content.
type Asset = (&'static str, &'static str, &'static str);

macro_rules! assets {
    ($($path:literal $kind:literal $file:literal,)+) => {
        &[$(($path, $kind, include_str!(concat!("../../web/", $file)))),+]
    };
}

/// All of them.
pub(super) const ASSETS: &[Asset] = assets! {
    "/" "text/html; charset=utf-8" "index.html",
    "/style.css" "text/css; charset=utf-8" "style.css",
    "/icon.svg" "image/svg+xml" "icon.svg",
    "/main.js" "text/javascript; charset=utf-8" "main.js",
    "/api.js" "text/javascript; charset=utf-8" "api.js",
    "/store.js" "text/javascript; charset=utf-8" "store.js",
    "/types.js" "text/javascript; charset=utf-8" "types.js",
    "/scale.js" "text/javascript; charset=utf-8" "scale.js",
    "/format.js" "text/javascript; charset=utf-8" "format.js",
    "/dom.js" "text/javascript; charset=utf-8" "dom.js",
    "/map.js" "text/javascript; charset=utf-8" "map.js",
    "/picture.js" "text/javascript; charset=utf-8" "picture.js",
    "/sheet.js" "text/javascript; charset=utf-8" "sheet.js",
    "/view.js" "text/javascript; charset=utf-8" "view.js",
    "/legend.js" "text/javascript; charset=utf-8" "legend.js",
    "/search.js" "text/javascript; charset=utf-8" "search.js",
    "/drawer.js" "text/javascript; charset=utf-8" "drawer.js",
    "/port.js" "text/javascript; charset=utf-8" "port.js",
    "/tables.js" "text/javascript; charset=utf-8" "tables.js",
    "/spark.js" "text/javascript; charset=utf-8" "spark.js",
    "/paths.js" "text/javascript; charset=utf-8" "paths.js",
    "/groups.js" "text/javascript; charset=utf-8" "groups.js",
    "/loops.js" "text/javascript; charset=utf-8" "loops.js",
    "/top.js" "text/javascript; charset=utf-8" "top.js",
    "/events.js" "text/javascript; charset=utf-8" "events.js",
    "/traffic.js" "text/javascript; charset=utf-8" "traffic.js",
    "/time.js" "text/javascript; charset=utf-8" "time.js",
};

/// Serves one.
pub(super) fn serve<S>(&(_, kind, content): &'static Asset) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    get(move || async move { asset(kind, content) })
}

fn asset(kind: &'static str, content: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], content).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_of_the_page_is_served_under_its_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/web");
        let files = std::fs::read_dir(folder).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let there: BTreeSet<String> = names.map(|name| format!("/{name}")).collect();
        let served = ASSETS.iter().map(|(path, ..)| match *path {
            "/" => "/index.html".to_owned(),
            path => path.to_owned(),
        });
        assert_eq!(served.collect::<BTreeSet<String>>(), there);
    }
}
