#include "atp/config/interconnect/nvidia_matrix.h"

#include <algorithm>
#include <array>
#include <optional>

#include "atp/config/text/file.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

constexpr std::array<std::string_view, kGpuLinkKinds> kNames{"NV",  "PIX",  "PXB",
                                                             "PHB", "NODE", "SYS"};
constexpr std::size_t kMaxGpus = 256;

// A line's words, without the escape sequences that underline the header.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool between = true;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      while (i < line.size() && line[i] != 'm') ++i;
    } else if (line[i] == ' ' || line[i] == '\t' || line[i] == '\r') {
      between = true;
    } else {
      if (between) words.emplace_back();
      between = false;
      words.back() += line[i];
    }
  }
  return words;
}

bool is_gpu(const std::string& word) {
  return word.starts_with("GPU") && parse_integer(word.substr(3)).has_value();
}

std::optional<GpuPath> parse_path(const std::string& word) {
  if (word.starts_with("NV")) {
    const auto links = parse_integer(word.substr(2));
    if (!links || *links < 1 || *links > 1000) return std::nullopt;
    return GpuPath{.link = GpuLink::kNvLink, .nvlinks = static_cast<int>(*links)};
  }
  const auto* name = std::find(kNames.begin(), kNames.end(), word == "SOC" ? "SYS" : word);
  if (name == kNames.end()) return std::nullopt;
  return GpuPath{.link = static_cast<GpuLink>(name - kNames.begin())};
}

struct Line {
  int number;
  std::vector<std::string> words;
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back({++number, words_of(text.substr(0, end))});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void read_row(const Line& line, const std::string& file, std::size_t row, NvidiaMatrix& matrix) {
  for (std::size_t column = 0; column < matrix.gpus; ++column) {
    const Place place{file, line.number,
                      "GPU" + std::to_string(row) + ", GPU" + std::to_string(column)};
    const std::string word = column + 1 < line.words.size() ? line.words[column + 1] : "";
    if (row == column) {
      if (word != "X") refuse(place, shown(word), "X on the diagonal");
      matrix.paths.emplace_back();
      continue;
    }
    const std::optional<GpuPath> path = parse_path(word);
    if (!path) refuse(place, shown(word), "NV#, PIX, PXB, PHB, NODE or SYS");
    matrix.paths.push_back(*path);
  }
}

// `rows` holds the line numbers of the matrix rows.
void check_symmetric(const NvidiaMatrix& matrix, const std::string& file,
                     const std::vector<int>& rows) {
  for (std::size_t from = 0; from < matrix.gpus; ++from) {
    for (std::size_t to = 0; to < from; ++to) {
      if (matrix.at(from, to) == matrix.at(to, from)) continue;
      throw FileError(
          {file, rows[from], "GPU" + std::to_string(from) + ", GPU" + std::to_string(to)},
          "the two halves of the matrix differ; was the text truncated or edited?");
    }
  }
}

}  // namespace

std::string_view gpu_link_name(GpuLink link) { return kNames[static_cast<std::size_t>(link)]; }

NvidiaMatrix parse_nvidia_matrix(std::string_view text, const std::string& file) {
  const std::vector<Line> lines = lines_of(text);
  const auto header = std::find_if(lines.begin(), lines.end(), [](const Line& line) {
    return !line.words.empty() && is_gpu(line.words.front());
  });
  if (header == lines.end()) {
    refuse({file, 0, ""}, "no line that begins with GPU0", "the output of nvidia-smi topo -m");
  }
  NvidiaMatrix matrix;
  matrix.gpus = static_cast<std::size_t>(
      std::find_if_not(header->words.begin(), header->words.end(), is_gpu) - header->words.begin());
  if (matrix.gpus > kMaxGpus) {
    refuse({file, header->number, ""}, std::to_string(matrix.gpus) + " GPUs", "at most 256");
  }
  std::vector<int> rows;
  for (auto line = header + 1; line != lines.end() && rows.size() < matrix.gpus; ++line) {
    if (line->words.empty() || line->words.front() != header->words[rows.size()]) continue;
    read_row(*line, file, rows.size(), matrix);
    rows.push_back(line->number);
  }
  if (rows.size() < matrix.gpus) {
    refuse({file, header->number, ""}, std::to_string(rows.size()) + " rows of GPUs",
           std::to_string(matrix.gpus) + ", one per column", "was the text truncated?");
  }
  check_symmetric(matrix, file, rows);
  return matrix;
}

}  // namespace atp
