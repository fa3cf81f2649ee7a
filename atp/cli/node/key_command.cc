#include <memory>
#include <string>

#include "atp/cli/command/command.h"
#include "atp/driver/keys/key_file.h"

namespace atp {
namespace {

constexpr const char* kKeyExamples = R"(Examples:
  atp key vision vision.key
      make a key for the tenant vision
  cat vision.key speech.key > keys && chmod 600 keys && atp server --keys keys
      serve only jobs of two tenants
  atp run -n 4 --switch --key vision.key -- python train.py
      run a job whose packets carry tags made with the key)";

struct KeyOptions {
  std::string name;
  std::string file;
};

void make_key(const KeyOptions& options) {
  if (const auto problem = tenant_name_problem(options.name)) {
    throw CommandError(*problem, kWrongUsage);
  }
  const Status made = make_key_file(options.file, options.name);
  if (!made) throw CommandError(made.error().message);
}

}  // namespace

void add_key_command(const Command& program) {
  const Command command =
      program.add_command("key", "Make a tenant's key, with which its jobs tag their packets");
  command.footer(kKeyExamples);
  const auto options = std::make_shared<KeyOptions>();
  command.add_option("name", options->name, "Name of the tenant, as in the nodes' --keys files")
      .type_name("NAME")
      .required();
  command.add_option("file", options->file, "File to create, which only its owner may read")
      .type_name("FILE")
      .required();
  command.callback([options] { make_key(*options); });
}

}  // namespace atp
