// A rank of Open MPI: runs float32 all-reduces for conductor.py and checks each result.
//
//   mpirun ... openmpi_rank SOCKET JOB

#include <mpi.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

// As in torch_rank.py: numbers with exact sums.
constexpr int kPattern = 31;
constexpr float kScale = 1.0F / 16;

float pattern(std::size_t i) {
  return static_cast<float>(static_cast<int>(i % kPattern) - kPattern / 2) * kScale;
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

FILE* connect_to(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (socket < 0) fail("socket");
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) fail(path);
  return ::fdopen(socket, "r+");
}

void sleep_until(long long nanoseconds) {
  const timespec at{static_cast<time_t>(nanoseconds / 1'000'000'000),
                    static_cast<long>(nanoseconds % 1'000'000'000)};
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
}

long long now() {
  timespec at{};
  ::clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

struct Rank {
  int number = 0;
  int ranks = 0;
  std::vector<std::vector<float>> tensors;

  void prepare(std::size_t bytes, std::size_t iterations) {
    std::vector<float> mine(bytes / sizeof(float));
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = pattern(i) * static_cast<float>(number + 1);
    }
    tensors.assign(iterations, mine);
  }

  void all_reduce() {
    for (auto& tensor : tensors) {
      MPI_Allreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(tensor.size()), MPI_FLOAT,
                    MPI_SUM, MPI_COMM_WORLD);
    }
  }

  void check() const {
    const auto times = static_cast<float>(ranks * (ranks + 1) / 2);
    for (const auto& tensor : tensors) {
      for (std::size_t i = 0; i < tensor.size(); ++i) {
        if (tensor[i] == pattern(i) * times) continue;
        std::fprintf(stderr, "rank %d: a wrong sum at %zu\n", number, i);
        std::exit(1);
      }
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "openmpi_rank SOCKET JOB, started by experiments/bench/openmpi.py\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  Rank rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank.number);
  MPI_Comm_size(MPI_COMM_WORLD, &rank.ranks);

  // Open MPI spins while it waits. Between turns the rank waits here instead, sleeping.
  FILE* conductor = connect_to(argv[1]);
  std::fprintf(conductor, "hello openmpi %s %d\n", argv[2], rank.number);
  std::fflush(conductor);
  char line[256];
  while (std::fgets(line, sizeof(line), conductor) != nullptr) {
    std::size_t bytes = 0;
    std::size_t iterations = 0;
    long long begin = 0;
    if (std::sscanf(line, "prepare %*s %zu %zu", &bytes, &iterations) == 2) {
      rank.prepare(bytes, iterations);
      std::fprintf(conductor, "ready\n");
    } else if (std::sscanf(line, "go %lld", &begin) == 1) {
      sleep_until(begin);
      rank.all_reduce();
      const long long done = now();
      rank.check();
      std::fprintf(conductor, "done %lld\n", done);
    } else {
      break;
    }
    std::fflush(conductor);
  }
  MPI_Finalize();
}
