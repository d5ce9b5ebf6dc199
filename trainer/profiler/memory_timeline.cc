// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/memory_timeline.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trainer/profiler/system_sampler.h"
#include "trainer/profiler/trace_file.h"

namespace composer {
namespace {

// Keeps the largest of each of max_points equal stretches of points.
std::vector<MemoryCurve::Point> Thin(std::vector<MemoryCurve::Point> points, size_t max_points) {
  if (points.size() <= max_points) return points;
  std::vector<MemoryCurve::Point> kept;
  for (size_t i = 0; i < max_points; ++i) {
    const auto first = points.begin() + static_cast<int64_t>(points.size() * i / max_points);
    const auto last = points.begin() + static_cast<int64_t>(points.size() * (i + 1) / max_points);
    kept.push_back(*std::max_element(
        first, last, [](const MemoryCurve::Point& a, const MemoryCurve::Point& b) { return a.bytes < b.bytes; }));
  }
  return kept;
}

std::string CurveName(int device, bool begin_is_known) {
  if (device < 0) return "CPU tensors (change since the window began)";
  return absl::StrCat("GPU ", device, " tensors", begin_is_known ? "" : " (change since the window began)");
}

// Appends [[x, y], …]: seconds since the window began, bytes.
void AppendCurve(const MemoryCurve& curve, int64_t begin_ns, std::string* out) {
  *out += "{name:";
  AppendJsonString(out, curve.name);
  *out += ",points:[";
  for (const MemoryCurve::Point& point : curve.points) {
    absl::StrAppendFormat(out, "[%.6f,%d],", static_cast<double>(point.time_ns - begin_ns) / 1e9, point.bytes);
  }
  *out += "]},\n";
}

bool IsPhase(const SpanRecord& span) {
  const absl::string_view category = span.name->category;
  for (const TraceName& phase :
       {kDataloaderSpan, kForwardSpan, kBackwardSpan, kReduceSpan, kOptimizerSpan, kEvaluationSpan, kCheckpointSpan}) {
    if (category == phase.category) return true;
  }
  return false;
}

constexpr size_t kMaxBands = 2000;

void AppendBands(const Window& window, std::string* out) {
  size_t count = 0;
  for (const SpanRecord& span : window.spans) {
    if (span.kind != SpanRecord::Kind::kSpan || span.thread != window.training_thread || !IsPhase(span)) continue;
    if (++count > kMaxBands) return;
    *out += "[";
    AppendJsonString(out, span.name->category);
    absl::StrAppendFormat(out, ",%.6f,%.6f],\n", static_cast<double>(span.begin_ns - window.begin_ns) / 1e9,
                          static_cast<double>(span.end_ns - window.begin_ns) / 1e9);
  }
}

constexpr absl::string_view kHead = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Memory</title><style>
body{font:14px system-ui,sans-serif;margin:24px;color:#222;background:#fff}
h1{font-size:18px} svg{width:100%;height:62vh;border:1px solid #ccc} text{font:11px system-ui,sans-serif;fill:#444}
#at{min-height:20px;font-variant-numeric:tabular-nums} .key span{display:inline-block;margin-right:16px}
.key i{display:inline-block;width:12px;height:12px;margin-right:5px;vertical-align:-1px}
</style></head><body>
)html";

constexpr absl::string_view kScript = R"html(
const colors=["#0b62a4","#c0392b","#1d8348","#7d3c98","#b9770e"];
const shades={data_wait:"#f9e79f",forward:"#d6eaf8",backward:"#fadbd8",communication:"#e8daef",optimizer:"#d5f5e3",
evaluation:"#eaecee",checkpoint:"#fdebd0"};
const W=1200,H=500,L=80,B=30,end=Math.max(duration,...curves.map(c=>c.points[c.points.length-1][0]));
let low=0,high=1;for(const c of curves)for(const p of c.points){low=Math.min(low,p[1]);high=Math.max(high,p[1])}
const x=t=>L+(W-L-10)*t/end,y=b=>10+(H-B-20)*(high-b)/(high-low);
const human=b=>{const s=b<0?"-":"";b=Math.abs(b);
for(const u of["B","kB","MB","GB"]){if(b<1000)return s+b.toFixed(u=="B"?0:1)+" "+u;b/=1000}
return s+b.toFixed(2)+" TB"};
let svg="";
for(const[c,a,z]of bands)svg+=`<rect x="${x(a)}" y="10" width="${Math.max(x(z)-x(a),.3)}" height="${H-B-20}"
fill="${shades[c]}"><title>${c}</title></rect>`;
for(let i=0;i<=5;++i){const b=low+(high-low)*i/5,t=end*i/5;
svg+=`<line x1="${L}" x2="${W-10}" y1="${y(b)}" y2="${y(b)}" stroke="#ddd"/>
<text x="${L-6}" y="${y(b)+4}" text-anchor="end">${human(b)}</text>`;
svg+=`<text x="${x(t)}" y="${H-12}" text-anchor="middle">${(t*1000).toFixed(1)} ms</text>`}
curves.forEach((c,i)=>{let d="";
c.points.forEach((p,k)=>{
d+=k?`H${x(p[0]).toFixed(2)}V${y(p[1]).toFixed(2)}`:`M${x(p[0]).toFixed(2)} ${y(p[1]).toFixed(2)}`});
svg+=`<path d="${d}H${x(end)}" fill="none" stroke="${colors[i%5]}" stroke-width="1.5"/>`});
svg+=`<line id="cursor" y1="10" y2="${H-B-10}" stroke="#888" stroke-dasharray="3" x1="-9" x2="-9"/>`;
const box=document.querySelector("svg");
box.setAttribute("viewBox",`0 0 ${W} ${H}`);box.setAttribute("preserveAspectRatio","none");box.innerHTML=svg;
const key=document.querySelector(".key");
curves.forEach((c,i)=>{const s=document.createElement("span");s.innerHTML=`<i style="background:${colors[i%5]}"></i>`;
s.append(`${c.name}, peak ${human(Math.max(...c.points.map(p=>p[1])))}`);key.append(s)});
for(const c of new Set(bands.map(b=>b[0]))){const s=document.createElement("span");
s.innerHTML=`<i style="background:${shades[c]}"></i>`;s.append(c);key.append(s)}
box.addEventListener("mousemove",e=>{const r=box.getBoundingClientRect(),
px=(e.clientX-r.left)/r.width*W,t=Math.max(0,(px-L)/(W-L-10)*end);
const line=document.getElementById("cursor");line.setAttribute("x1",px);line.setAttribute("x2",px);
const at=curves.map(c=>{let k=0,z=c.points.length;
while(k<z){const m=k+z>>1;c.points[m][0]<=t?k=m+1:z=m}return human(c.points[Math.max(0,k-1)][1])+" "+c.name});
const band=bands.filter(b=>b[1]<=t&&t<=b[2]).pop();
document.getElementById("at").textContent=(t*1000).toFixed(3)+" ms"+(band?", "+band[0]:"")+": "+at.join("; ")});
)html";

std::string EscapedHtml(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::vector<MemoryCurve> MemoryCurves(const Window& window, size_t max_points) {
  std::map<int, std::vector<MemoryEvent>> by_device;
  for (const MemoryEvent& event : window.memory) by_device[event.device].push_back(event);
  std::vector<MemoryCurve> curves;
  for (auto& [device, events] : by_device) {
    std::stable_sort(events.begin(), events.end(),
                     [](const MemoryEvent& a, const MemoryEvent& b) { return a.time_ns < b.time_ns; });
    const auto known = std::find_if(window.memory_at_begin.begin(), window.memory_at_begin.end(),
                                    [d = device](const auto& entry) { return entry.first == d; });
    const bool begin_is_known = known != window.memory_at_begin.end();
    int64_t bytes = begin_is_known ? known->second : 0;
    MemoryCurve curve{CurveName(device, begin_is_known), {{window.begin_ns, bytes}}};
    for (const MemoryEvent& event : events) curve.points.push_back({event.time_ns, bytes += event.bytes});
    curve.points = Thin(std::move(curve.points), max_points);
    curves.push_back(std::move(curve));
  }
  MemoryCurve resident{"resident memory of the process", {}};
  for (const CounterSample& sample : window.counters) {
    if (sample.name != kResidentCounter || sample.values.empty()) continue;
    resident.points.push_back({sample.time_ns, static_cast<int64_t>(sample.values[0].second * 1e9)});
  }
  std::stable_sort(resident.points.begin(), resident.points.end(),
                   [](const MemoryCurve::Point& a, const MemoryCurve::Point& b) { return a.time_ns < b.time_ns; });
  resident.points = Thin(std::move(resident.points), max_points);
  if (!resident.points.empty()) curves.push_back(std::move(resident));
  return curves;
}

std::string MemoryPage(const Window& window, const std::string& title) {
  const std::vector<MemoryCurve> curves = MemoryCurves(window);
  if (curves.empty()) return "";
  std::string page(kHead);
  absl::StrAppend(&page, "<h1>Memory: ", EscapedHtml(title), "</h1><div class=\"key\"></div><div id=\"at\"></div>\n",
                  "<svg></svg>\n<script>\nconst duration=", static_cast<double>(window.end_ns - window.begin_ns) / 1e9,
                  ";\nconst curves=[\n");
  for (const MemoryCurve& curve : curves) AppendCurve(curve, window.begin_ns, &page);
  page += "];\nconst bands=[\n";
  AppendBands(window, &page);
  absl::StrAppend(&page, "];", kScript, "</script></body></html>\n");
  return page;
}

}  // namespace composer
