//! Pictures of the page for the documents. `IBEMU_PICTURES=docs/pictures` keeps them in that folder, relative to the tree.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use e2e::{Fabric, Transport};
use fantoccini::Client;
use serde_json::Value;

use super::Server;
use super::browser::{Driver, SHOWN, click, search, until, write};

/// What the window is, so that a picture fits a page.
pub(super) const WINDOW: &str = "--window-size=1280,860";
/// No picture makes the tree large.
const BYTES_MAX: usize = 250_000;

/// Traffic that ends with the value.
struct Traffic(Child);

impl Traffic {
    /// A third of what all hosts send goes to one, more than its link carries.
    fn to_one_host(fabric: &Fabric) -> Self {
        let arguments = [
            "traffic",
            "centric-30",
            "--rate",
            "10M",
            "--size",
            "2082",
            "--seconds",
            "3600",
        ];
        let mut command: Command = fabric.command(&arguments);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.expect("traffic starts"))
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where pictures are kept.
pub(super) struct Album {
    folder: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Album {
    pub(super) fn open() -> Self {
        let scratch = tempfile::tempdir().expect("a folder");
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let folder = std::env::var_os("IBEMU_PICTURES");
        Self {
            folder: folder.map_or_else(|| scratch.path().to_owned(), |folder| tree.join(folder)),
            _scratch: scratch,
        }
    }

    pub(super) async fn keep(&self, page: &Client, name: &str) {
        let picture = page.screenshot().await.expect("a picture");
        assert!(picture.len() < BYTES_MAX, "{name}: {} bytes", picture.len());
        let path = self.folder.join(name);
        std::fs::write(&path, picture)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn a_host_that_is_sent_too_much_shows_as_a_tree_of_congestion_in_light_and_in_dark() {
    // Slow links, so that they and not this machine are what is full.
    let fabric = Fabric::up(
        Transport::Udp,
        "fat-tree-4-3",
        &["--no-ip", "--time-scale", "1000", "--lmc", "2"],
    );
    let server = Server::of(&fabric, &[]);
    let traffic = Traffic::to_one_host(&fabric);
    let driver = Driver::start();
    let album = Album::open();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let page = driver.browser(&[WINDOW]).await;
        page.goto(&server.url).await.expect("the page");
        let light = congestion(&page).await;
        album.keep(&page, "web.png").await;
        a_path(&page).await;
        album.keep(&page, "web-path.png").await;
        ways(&page).await;
        album.keep(&page, "web-paths.png").await;
        lanes(&page).await;
        album.keep(&page, "web-lanes.png").await;
        pulled(&page, &fabric).await;
        album.keep(&page, "web-events.png").await;
        page.close().await.expect("the browser closes");
        let page = driver.browser(&[WINDOW, "--force-dark-mode"]).await;
        page.goto(&server.url).await.expect("the page");
        let dark = congestion(&page).await;
        album.keep(&page, "web-dark.png").await;
        page.close().await.expect("the browser closes");
        assert_ne!(light, dark, "the paper");
    });
    drop((traffic, server));
    fabric.down();
}

/// Cables by wait, once the congestion has spread from the host over all levels of the tree, and the list of those that wait most.
/// Returns the colour of the paper.
async fn congestion(page: &Client) -> Value {
    click(page, "#tab-top").await;
    let by_wait = "const by = document.querySelector('#layer'); if (by.value === 'wait') return true; \
                   by.value = 'wait'; by.dispatchEvent(new Event('change')); return false";
    until(page, SHOWN, "cables by wait", by_wait).await;
    let spread = "const rows = [...document.querySelectorAll('#top tbody tr')].map((row) => row.textContent); \
                  return rows.some((row) => row.startsWith('s0.')) && rows.some((row) => /^s1.*s2/.test(row)) && rows.some((row) => row.startsWith('h'))";
    until(page, SHOWN, "waiting on every level", spread).await;
    tidy(page, "fat-tree-4-3").await;
    let paper = "const [r, g, b] = document.querySelector('fabric-map canvas').getContext('2d').getImageData(2, 2, 1, 1).data; return [r, g, b]";
    until(page, SHOWN, "the paper", paper).await
}

/// Names the fabric as one is without --fabric, and leaves nothing in focus.
pub(super) async fn tidy(page: &Client, topology: &str) {
    let tidy = format!(
        "document.querySelector('#fabric').textContent = 'ib · {topology}'; document.activeElement.blur(); return true"
    );
    until(page, SHOWN, "a tidy page", &tidy).await;
}

async fn a_path(page: &Client) {
    click(page, "#tab-paths").await;
    write(page, "#path-from", "h0.0.0").await;
    write(page, "#path-to", "h3.1.1").await;
    click(page, "#paths form button[type=submit]").await;
    let shown = "return document.querySelector('#paths [data-hops]') !== null";
    until(page, SHOWN, "a path", shown).await;
}

/// The ways to all LIDs of a host.
async fn ways(page: &Client) {
    click(page, "#paths form button:nth-of-type(2)").await;
    let shown =
        "return document.querySelector('#paths [data-ways]')?.dataset.ways.split(';').length === 4";
    until(page, SHOWN, "four ways", shown).await;
    tidy(page, "fat-tree-4-3").await;
}

/// A cable is pulled: it is marked, and what happens then is listed.
async fn pulled(page: &Client, fabric: &Fabric) {
    click(page, "#tab-events").await;
    let _ = fabric.call(&["link", "down", "s0.1.0:2"]).success();
    let down = "return document.querySelector('fabric-map canvas').getAttribute('aria-label').includes(', 1 down')";
    until(page, SHOWN, "a cable that is Down", down).await;
    let told = "const kinds = new Set([...document.querySelectorAll('#events li')].map((item) => item.dataset.kind)); \
                return ['trap', 'link', 'sweep', 'routing'].every((kind) => kinds.has(kind))";
    until(page, SHOWN, "what happens then", told).await;
    tidy(page, "fat-tree-4-3").await;
}

/// The lanes of the port to the host, which are full.
async fn lanes(page: &Client) {
    click(page, "map-legend button").await;
    search(page, "s2.0.0").await;
    click(page, "#details summary[data-key='Counters of port 3']").await;
    let shown = "const port = document.querySelector('#details [data-port=\"3\"]'); \
                 if (port === null || port.querySelectorAll('table').length < 2) return false; \
                 port.scrollIntoView(); return true";
    until(page, SHOWN, "lanes", shown).await;
}
