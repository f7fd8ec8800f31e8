//! The page in headless Chromium, by WebDriver: one start of the browser for all that is looked at.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::{Fabric, Transport, diags};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

use super::Server;

/// How long the page may take on a loaded machine where it is asked only whether it comes.
pub(super) const SHOWN: Duration = Duration::from_secs(60);
/// How soon a cable that was pulled is seen.
const SEEN: Duration = Duration::from_secs(2);
/// Where `tests/run.sh` puts the accessibility checker.
const AXE: &str = "/usr/local/lib/ibemu-tests/axe-core/axe.min.js";

/// Debian's chromedriver.
pub(super) struct Driver {
    child: Child,
    url: String,
}

impl Driver {
    pub(super) fn start() -> Self {
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts (tests/run.sh installs it)");
        let stdout = child.stdout.take().expect("standard output");
        let port = BufReader::new(stdout).lines().find_map(|line| {
            let line = line.expect("text");
            let (_, port) = line.split_once("started successfully on port ")?;
            Some(port.trim_end_matches('.').to_owned())
        });
        let port = port.expect("chromedriver tells its port");
        Self {
            child,
            url: format!("http://127.0.0.1:{port}"),
        }
    }

    /// A browser with these arguments beside its usual ones.
    pub(super) async fn browser(&self, more: &[&str]) -> Client {
        let usual = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1400,900",
        ];
        let args = [&usual[..], more].concat();
        let options = json!({ "args": args });
        let wanted = [("goog:chromeOptions".to_owned(), options)];
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(wanted.into_iter().collect());
        builder.connect(&self.url).await.expect("a browser")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a script returns, once it is neither false nor null.
pub(super) async fn until(page: &Client, limit: Duration, what: &str, script: &str) -> Value {
    let begun = std::time::Instant::now();
    loop {
        let value = page.execute(script, Vec::new()).await.expect(what);
        if value != Value::Null && value != Value::Bool(false) {
            return value;
        }
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) async fn click(page: &Client, css: &str) {
    let element = page
        .wait()
        .at_most(SHOWN)
        .for_element(Locator::Css(css))
        .await;
    element.expect(css).click().await.expect(css);
}

pub(super) async fn write(page: &Client, css: &str, text: &str) {
    let element = page.find(Locator::Css(css)).await.expect(css);
    element.clear().await.expect(css);
    element.send_keys(text).await.expect(css);
}

#[test]
fn the_page_shows_the_fabric_as_the_command_and_stock_tools_do() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &["--no-ip", "--lmc", "1"]);
    let server = Server::of(&fabric, &["--control"]);
    let driver = Driver::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let page = driver.browser(&[]).await;
        page.goto(&server.url).await.expect("the page");
        shows_all(&page).await;
        shows_a_path(&page, &fabric).await;
        shows_paths_side_by_side(&page, &fabric).await;
        shows_counters(&page, &fabric).await;
        shows_lanes(&page).await;
        shows_a_pulled_cable(&page, &fabric).await;
        goes_back_in_time(&page).await;
        is_usable_by_keyboard(&page).await;
        is_accessible(&page).await;
        page.close().await.expect("the browser closes");
    });
    drop(server);
    fabric.down();
}

/// All 36 devices, and every cable Active.
async fn shows_all(page: &Client) {
    let state = "return document.querySelector('#state').textContent";
    let told = "const told = document.querySelector('#state').textContent; return told.startsWith('36 devices, 48 cables') && told";
    until(page, SHOWN, "36 devices", told).await;
    let label = "const label = document.querySelector('fabric-map canvas').getAttribute('aria-label'); \
                 return label.includes('36 devices, 48 cables, 0 down, 0 not yet active')";
    until(page, SHOWN, "all cables are Active", label).await;
    assert_eq!(
        page.execute(state, Vec::new()).await.expect("text"),
        json!("36 devices, 48 cables")
    );
    let url = page.current_url().await.expect("an address");
    assert_eq!(url.query(), None, "the token stays in the address");
    // Something is drawn: the canvas is not of one colour.
    let drawn = "const c = document.querySelector('fabric-map canvas'); \
                 const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
                 return new Set(new Uint32Array(d.buffer)).size > 8";
    until(page, SHOWN, "a picture", drawn).await;
}

/// A path that is drawn is what `ibemu path` says.
async fn shows_a_path(page: &Client, fabric: &Fabric) {
    click(page, "#tab-paths").await;
    write(page, "#path-from", "h0.0.0").await;
    write(page, "#path-to", "h3.1.1").await;
    click(page, "#paths form button[type=submit]").await;
    let shown = "return document.querySelector('#paths [data-hops]')?.dataset.hops";
    let shown = until(page, SHOWN, "a path", shown).await;
    let told = told_path(fabric, &[]);
    assert_eq!(shown, json!(told));
}

/// The hops that `ibemu path` tells, as the page names them.
fn told_path(fabric: &Fabric, options: &[&str]) -> String {
    let arguments = [&["path", "h0.0.0", "h3.1.1", "--json"], options].concat();
    let told = fabric.call(&arguments).success().json();
    let end = |port: &Value| {
        port.as_u64()
            .map(|port| port.to_string())
            .unwrap_or_default()
    };
    let hops: Vec<String> = told["hops"]
        .as_array()
        .expect("hops")
        .iter()
        .map(|hop| {
            format!(
                "{}>{}>{}",
                end(&hop["in"]),
                hop["node"].as_str().expect("a name"),
                end(&hop["out"])
            )
        })
        .collect();
    hops.join(" ")
}

/// The paths to all LIDs of a host stand side by side, and are drawn in one colour each.
async fn shows_paths_side_by_side(page: &Client, fabric: &Fabric) {
    click(page, "#paths form button:nth-of-type(2)").await;
    let shown = "return document.querySelector('#paths [data-ways]')?.dataset.ways";
    let shown = until(page, SHOWN, "two paths", shown).await;
    let told = ["0", "1"].map(|offset| told_path(fabric, &["--dlid-offset", offset]));
    assert_ne!(told[0], told[1], "two ways");
    assert_eq!(shown, json!(told.join(";")));
    let columns = "return document.querySelectorAll('#paths th').length";
    assert_eq!(
        page.execute(columns, Vec::new()).await.expect("a table"),
        json!(3)
    );
    // The first way alone has fewer cables than both.
    let marked = "return Number(/, (\\d+) cables marked/.exec(document.querySelector('fabric-map canvas').getAttribute('aria-label'))?.[1] ?? 0)";
    let both = until(page, SHOWN, "marks", &format!("{marked} || null")).await;
    click(page, "#paths .ways button").await;
    let fewer =
        format!("const marked = (() => {{ {marked} }})(); return marked > 0 && marked < {both}");
    until(page, SHOWN, "one way", &fewer).await;
    click(page, "map-legend button").await;
}

/// Cables by the occupancy of one lane, and a cable's details: LIDs, rate, counters of both ends.
async fn shows_lanes(page: &Client) {
    let by_lane = "const by = document.querySelector('#layer'); by.value = 'fill'; by.dispatchEvent(new Event('change')); \
                   const lane = document.querySelector('#lane'); lane.value = '1'; lane.dispatchEvent(new Event('change')); \
                   return [...document.querySelector('#lane').options].map((option) => option.textContent)";
    let lanes = until(page, SHOWN, "lanes", by_lane).await;
    assert_eq!(
        lanes,
        json!(["the fullest", "VL 0", "VL 1", "VL 2", "VL 3"])
    );
    search(page, "h3.1.1:1").await;
    let ends = "const titles = [...document.querySelectorAll('#details summary')].map((it) => it.textContent); \
                return titles.length === 2 && titles.join()";
    let ends = until(page, SHOWN, "both ends", ends).await;
    assert!(ends.as_str().expect("text").contains("h3.1.1:1"), "{ends}");
    let rate = "return [...document.querySelectorAll('#details dd')].some((it) => it.textContent === '4x qdr')";
    until(page, SHOWN, "its width and speed", rate).await;
    let graphs = "return document.querySelectorAll('#details canvas.spark').length === 2";
    until(page, SHOWN, "ten minutes", graphs).await;
}

/// The first sample is shown with what had happened by then, and what happens now again.
async fn goes_back_in_time(page: &Client) {
    let back = "const range = document.querySelector('#time'); range.dispatchEvent(new Event('focus')); \
                if (Number(range.min) > -3) return false; \
                range.value = range.min; range.dispatchEvent(new Event('input')); return true";
    until(page, SHOWN, "a past", back).await;
    let then = "return document.querySelector('#state').textContent.includes('as of ') \
                && ![...document.querySelectorAll('#events li')].some((item) => item.textContent.includes('is pulled'))";
    until(page, SHOWN, "the past", then).await;
    search(page, "h3.1.1").await;
    let rates = "const port = document.querySelector('#details [data-port=\"1\"]'); return port !== null && !port.textContent.includes('PortXmitData')";
    until(page, SHOWN, "rates of then", rates).await;
    click(page, "time-line button").await;
    let now = "return !document.querySelector('#state').textContent.includes('as of ') \
               && [...document.querySelectorAll('#events li')].some((item) => /s0\\.0\\.0:1 .*Down/.test(item.textContent))";
    until(page, SHOWN, "now", now).await;
}

/// The drawer's counters are those that stock perfquery reads. The requests of both are counted, too: what
/// the page shows lies between what perfquery reads before and after.
async fn shows_counters(page: &Client, fabric: &Fabric) {
    let traffic = ["perf", "h0.0.0", "h3.1.1", "--count", "500"];
    let _ = fabric.call(&traffic).success();
    search(page, "h3.1.1").await;
    let lid = fabric.device("h3.1.1")["lid"].to_string();
    let read = || {
        let stock = diags(fabric, "h0.0.0", &["perfquery", "-x", &lid, "1"]).success();
        perfquery(&stock.stdout)
    };
    let before = read();
    assert!(before["PortRcvPkts"] >= 500, "{before:?}");
    let script = format!(
        "const rows = [...document.querySelectorAll('#details [data-port=\"1\"] tr')]; \
         const counters = Object.fromEntries(rows.map((row) => [...row.cells].map((cell) => cell.textContent))); \
         return Number(counters.PortRcvPkts) >= {} && counters",
        before["PortRcvPkts"]
    );
    let shown = until(page, SHOWN, "counters as perfquery has them", &script).await;
    let lanes = "return [...document.querySelectorAll('#details [data-port=\"1\"] table')] \
                 .some((table) => (table.getAttribute('aria-label') ?? '').startsWith('Lanes of port 1') && table.rows.length > 1)";
    until(page, SHOWN, "lanes, as the device tells them", lanes).await;
    let after = read();
    for name in [
        "PortXmitData",
        "PortRcvData",
        "PortXmitPkts",
        "PortRcvPkts",
        "PortUnicastXmitPkts",
        "PortMulticastRcvPkts",
    ] {
        let shown: u64 = shown[name]
            .as_str()
            .and_then(|text| text.parse().ok())
            .expect(name);
        assert!(
            (before[name]..=after[name]).contains(&shown),
            "{name}: {shown}, {before:?}, {after:?}"
        );
    }
}

/// Takes what the search finds first.
pub(super) async fn search(page: &Client, what: &str) {
    write(page, "#search", what).await;
    let search = page
        .find(Locator::Css("#search"))
        .await
        .expect("the search");
    search.send_keys("\u{e007}").await.expect("Enter");
}

/// Counters by name, of a text like `PortRcvData:.....72`.
fn perfquery(text: &str) -> BTreeMap<String, u64> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let value = value.trim_matches(|c: char| c == '.' || c.is_whitespace());
        Some((name.trim().to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// A cable that is pulled turns within two seconds, and an event says so.
async fn shows_a_pulled_cable(page: &Client, fabric: &Fabric) {
    let _ = fabric.call(&["link", "down", "s0.0.0:1"]).success();
    let turned = "return document.querySelector('fabric-map canvas').getAttribute('aria-label').includes(', 1 down')";
    until(page, SEEN, "a pulled cable turns", turned).await;
    let said = "return [...document.querySelectorAll('#events li')].some((item) => /s0\\.0\\.0:1 .*Down/.test(item.textContent))";
    until(page, SEEN, "an event", said).await;
    // From the page it is plugged again.
    search(page, "s0.0.0:1").await;
    click(page, "#details button[data-key='Plug the cable']").await;
    let healed = "return document.querySelector('fabric-map canvas').getAttribute('aria-label').includes(' 0 down, 0 not yet active')";
    until(page, SHOWN, "the cable is Active again", healed).await;
}

/// The map zooms by keys, tabs turn by arrows, and the search is a list that is gone through.
async fn is_usable_by_keyboard(page: &Client) {
    let tab = page
        .find(Locator::Css("#tab-details"))
        .await
        .expect("a tab");
    tab.click().await.expect("a tab");
    tab.send_keys("\u{e014}").await.expect("the arrow");
    let chosen = "return document.activeElement.id === 'tab-paths' && !document.querySelector('#paths').hidden";
    until(page, SHOWN, "the next tab", chosen).await;
    let canvas = page
        .find(Locator::Css("fabric-map canvas"))
        .await
        .expect("the map");
    let picture = "const c = document.querySelector('fabric-map canvas'); return c.toDataURL().length + c.toDataURL().slice(-200)";
    let before = page.execute(picture, Vec::new()).await.expect("a picture");
    canvas.send_keys("++").await.expect("zoom");
    let begun = std::time::Instant::now();
    while page.execute(picture, Vec::new()).await.expect("a picture") == before {
        assert!(begun.elapsed() < SHOWN, "the map does not zoom");
    }
    canvas.send_keys("0").await.expect("all");
    write(page, "#search", "s1.").await;
    let search = page
        .find(Locator::Css("#search"))
        .await
        .expect("the search");
    search
        .send_keys("\u{e015}\u{e015}\u{e007}")
        .await
        .expect("down twice, Enter");
    let shown = "const h = document.querySelector('#details h2'); return h && h.textContent.startsWith('s1.')";
    until(page, SHOWN, "the third device found", shown).await;
}

/// axe-core finds nothing, on no tab.
async fn is_accessible(page: &Client) {
    let axe = std::fs::read_to_string(AXE).expect("axe-core (tests/run.sh installs it)");
    page.execute(&format!("{axe}\nwindow.axe = axe;"), Vec::new())
        .await
        .expect("axe-core");
    for tab in [
        "details", "paths", "groups", "loops", "top", "events", "traffic",
    ] {
        click(page, &format!("#tab-{tab}")).await;
        let script = "const done = arguments[arguments.length - 1]; \
                      axe.run().then((found) => done(found.violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)])), (error) => done(String(error)))";
        let found = page
            .execute_async(script, Vec::new())
            .await
            .expect("a judgement");
        assert_eq!(found, json!([]), "tab {tab}");
    }
}
