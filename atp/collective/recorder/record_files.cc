// When and where the files are written: the settings, the thread, and the signals.
#include "atp/collective/recorder/record_files.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <new>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "atp/base/variables.h"

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kFilePrefix = "atp_rank_";
// Between two rounds of files: the failures of several groups, and of all operations in flight,
// come together.
constexpr milliseconds kBetweenRounds{500};
// How long a process that ends waits for a slow disk.
constexpr milliseconds kAtExit{2000};

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

void warn(const std::string& text) {
  std::fprintf(stderr, "atp: flight recorder: %s\n", text.c_str());
}

std::string folder_of(const std::string& prefix) {
  const auto slash = prefix.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : prefix.substr(0, slash);
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string system_error_text() { return std::strerror(errno); }

// Its name must not look like a record's: torch's analyzer reads every file that does.
std::string unfinished_name(const std::string& prefix, std::size_t rank) {
  return folder_of(prefix) + "/.unfinished-" + std::to_string(getpid()) + "-" +
         std::to_string(rank) + ".part";
}

Status write_whole(const std::string& path, const std::string& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Error{system_error_text()};
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t got = ::write(fd, bytes.data() + written, bytes.size() - written);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      Error error{system_error_text()};
      ::close(fd);
      return error;
    }
    written += static_cast<std::size_t>(got);
  }
  if (::close(fd) != 0) return Error{system_error_text()};
  return ok_status();
}

// A reader never sees half a file, and a full disk leaves an older one as it was.
Status replace(const std::string& path, const std::string& by, const std::string& bytes) {
  Status written = write_whole(by, bytes);
  if (written.ok() && std::rename(by.c_str(), path.c_str()) != 0) {
    written = Error{system_error_text()};
  }
  if (!written) ::unlink(by.c_str());
  return written;
}

// Writes on request. Requests come from any thread, and from a signal handler, which may only
// increment a semaphore. Never destroyed.
class RecordService {
 public:
  explicit RecordService(std::string prefix) : prefix_(std::move(prefix)) {
    sem_init(&asked_, 0, 0);
  }

  void start() {
    prepare_folder();
    start_thread();
  }
  void ask(const std::string& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (reason_.empty()) reason_ = reason;
      ++rounds_asked_;
    }
    sem_post(&asked_);
  }
  void wait(milliseconds most) {
    std::unique_lock lock(mutex_);
    const std::uint64_t wanted = rounds_asked_;
    hurries_ = true;
    hurry_.notify_all();
    done_.wait_for(lock, most, [&] { return !runs_ || rounds_done_ >= wanted; });
    hurries_ = false;
  }
  // In a signal handler.
  void ask_by_signal(int number) {
    (number == SIGTERM ? by_term_ : by_usr1_) = true;
    sem_post(&asked_);
  }
  bool is_ending() const { return by_term_; }

 private:
  void prepare_folder() {
    std::error_code error;
    const std::string folder = folder_of(prefix_);
    std::filesystem::create_directories(folder, error);
    if (error) return warn("cannot create the folder " + folder + ": " + error.message());
    if (::access(folder.c_str(), W_OK) != 0) {
      warn("cannot write to the folder " + folder + ": " + system_error_text());
    }
  }

  void start_thread() {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread thread([this] { run(); });
      pthread_setname_np(thread.native_handle(), "atp-recorder");
      thread.detach();
      runs_ = true;
    } catch (const std::system_error& error) {
      warn("no files will be written, as no thread can be started: " + error.code().message());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  [[noreturn]] void run() {
    for (;;) {
      while (sem_wait(&asked_) != 0) continue;
      while (sem_trywait(&asked_) == 0) continue;
      round();
      if (by_term_) end_process();
      std::unique_lock lock(mutex_);
      hurry_.wait_for(lock, kBetweenRounds, [this] { return hurries_ || by_term_; });
    }
  }

  void round() {
    std::unique_lock lock(mutex_);
    const std::uint64_t asked = rounds_asked_;
    const bool nothing_new = asked == rounds_done_;
    std::string reason = std::exchange(reason_, "");
    lock.unlock();
    const bool by_usr1 = by_usr1_.exchange(false);
    if (reason.empty() && nothing_new && !by_usr1 && !by_term_) return;
    // A failure explains more than what came after it.
    if (last_reason_.starts_with("failure")) reason = last_reason_;
    if (reason.empty()) reason = by_term_ ? "SIGTERM" : by_usr1 ? "SIGUSR1" : last_reason_;
    last_reason_ = reason;
    if (const auto written = write_records(prefix_, reason); !written) {
      tell_once(written.error().message);
    }
    lock.lock();
    rounds_done_ = asked;
    done_.notify_all();
  }

  void tell_once(const std::string& what) {
    if (told_.insert(what).second) warn(what);
  }

  // As if there had been no handler.
  [[noreturn]] static void end_process() {
    signal(SIGTERM, SIG_DFL);
    kill(getpid(), SIGTERM);
    for (;;) pause();
  }

  const std::string prefix_;
  sem_t asked_;
  std::atomic<bool> by_usr1_{false};
  std::atomic<bool> by_term_{false};
  std::string last_reason_;     // of its thread
  std::set<std::string> told_;  // of its thread
  std::mutex mutex_;
  std::condition_variable done_;
  std::condition_variable hurry_;
  bool runs_ = false;
  bool hurries_ = false;
  std::string reason_;  // of the oldest request that is not served
  std::uint64_t rounds_asked_ = 0;
  std::uint64_t rounds_done_ = 0;
};

std::atomic<RecordService*> service{nullptr};
std::mutex starting;
std::atomic<pid_t> owner{0};

extern "C" void atp_on_record_signal(int number) {
  const int before = errno;
  RecordService* const found = service;
  // A second SIGTERM, or one in a forked child, which has no thread that would write.
  if (found == nullptr || owner != getpid() || (number == SIGTERM && found->is_ending())) {
    signal(number, SIG_DFL);
    kill(getpid(), number);
  } else {
    found->ask_by_signal(number);
  }
  errno = before;
}

// Only where the program has no handler of its own.
void take_signal(int number) {
  struct sigaction now{};
  if (sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
  struct sigaction ours{};
  ours.sa_handler = atp_on_record_signal;
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  sigaction(number, &ours, nullptr);
}

void give_back_signal(int number) {
  struct sigaction now{};
  if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == atp_on_record_signal) {
    signal(number, SIG_DFL);
  }
}

// A forked child has no thread that would write; it starts one with its first own group.
void forget_in_child() {
  service = nullptr;
  new (&starting) std::mutex;
  give_back_signal(SIGUSR1);
  give_back_signal(SIGTERM);
}

void write_at_exit() {
  if (owner == getpid()) wait_for_records(kAtExit);
}

Result<std::size_t> size_from_environment() {
  const Variable& own = variable("ATP_FLIGHT_RECORDER_SIZE");
  for (const char* name : {"ATP_FLIGHT_RECORDER_SIZE", "TORCH_FR_BUFFER_SIZE"}) {
    const std::string text = value_of(name);
    if (text.empty()) continue;
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error == std::errc() && end == text.data() + text.size() &&
        static_cast<double>(size) <= own.most) {
      return size;
    }
    return Error{std::string(name) + "=\"" + text + "\" is not " + expected_text(own) +
                 " (how many operations to keep)"};
  }
  return RecorderSettings::kUsualSize;
}

}  // namespace

std::string record_prefix(const std::string& folder) {
  return folder + (folder.ends_with('/') ? "" : "/") + kFilePrefix;
}

Result<RecorderSettings> RecorderSettings::from_environment() {
  RecorderSettings settings;
  const Result<std::size_t> size = size_from_environment();
  if (!size) return size.error();
  settings.size = size.value();
  if (const std::string folder = value_of("ATP_FLIGHT_RECORDER"); !folder.empty()) {
    settings.prefix = record_prefix(folder);
    return settings;
  }
  for (const char* name : {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}) {
    settings.prefix = value_of(name);
    if (!settings.prefix.empty()) break;
  }
  return settings;
}

const RecorderSettings& RecorderSettings::of_process() {
  static const RecorderSettings kSettings = [] {
    Result<RecorderSettings> read = from_environment();
    if (read) return std::move(read).value();
    warn(read.error().message + "; " + std::to_string(kUsualSize) + " are kept");
    return RecorderSettings();
  }();
  return kSettings;
}

void start_writing_records() {
  const RecorderSettings& settings = RecorderSettings::of_process();
  if (settings.prefix.empty()) return;
  const std::lock_guard lock(starting);
  if (service != nullptr) return;
  owner = getpid();
  auto* started = new RecordService(settings.prefix);
  started->start();
  service = started;
  take_signal(SIGUSR1);
  take_signal(SIGTERM);
  static std::once_flag once;
  std::call_once(once, [] {
    std::atexit(write_at_exit);
    pthread_atfork(nullptr, nullptr, forget_in_child);
  });
}

void ask_for_records(const std::string& reason) {
  if (RecordService* const found = service) found->ask(reason);
}

void wait_for_records(milliseconds most) {
  if (RecordService* const found = service) found->wait(most);
}

Result<std::vector<std::string>> write_records(const std::string& prefix,
                                               const std::string& reason) {
  const Recording recording = FlightRecorder::of_process().read();
  RecordHeader header;
  header.host = host_name();
  header.process = getpid();
  header.reason = reason;
  header.written = steady_clock::now();
  header.steady_to_wall = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch() - header.written.time_since_epoch());
  std::error_code ignored;  // writing the file reports it
  std::filesystem::create_directories(folder_of(prefix), ignored);
  std::set<std::size_t> ranks;
  for (const Recording::Group& group : recording.groups) ranks.insert(group.info.rank);
  std::vector<std::string> paths;
  for (const std::size_t rank : ranks) {
    header.rank = rank;
    const std::string path = prefix + std::to_string(rank);
    const Status written =
        replace(path, unfinished_name(prefix, rank), encode_records(recording, header));
    if (!written) return Error{"cannot write " + path + ": " + written.error().message};
    paths.push_back(path);
  }
  return paths;
}

}  // namespace atp
