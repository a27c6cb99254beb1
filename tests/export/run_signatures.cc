// Runs every signature of an exported model with the loader that TF Serving uses.
//
//   run_signatures SAVED_MODEL OPS.so [INPUT] < LINES
//
// The input INPUT lacks the last row. An input line is a source and, after a tab, a second text for the signatures that
// take one. Prints lines "SIGNATURE \t OUTPUT \t ROW \t VALUES", by name. Uses no Python.
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tensorflow/c/c_api.h"
#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"

using tensorflow::Tensor;

Tensor MakeInput(const std::string& name, tensorflow::DataType dtype,
                 const std::vector<std::string>& lines) {
  const int64_t batch = lines.size();
  Tensor tensor(dtype, {batch});
  for (int64_t row = 0; row < batch; ++row) {
    const size_t tab = lines[row].find('\t');
    if (dtype == tensorflow::DT_STRING) {
      tensor.vec<tensorflow::tstring>()(row) =
          name == "text" ? lines[row].substr(0, tab) : lines[row].substr(tab + 1);
    } else if (dtype == tensorflow::DT_FLOAT) {
      tensor.vec<float>()(row) = 1.0f;  // temperature, top_p
    } else {
      tensor.vec<int32_t>()(row) = name == "seed" ? row : 0;
    }
  }
  return tensor;
}

// Tabs and line ends would look like those between values.
std::string Escaped(const tensorflow::tstring& text) {
  std::string escaped;
  for (const char character : std::string(text)) {
    if (character == '\t') escaped += "\\t";
    else if (character == '\n') escaped += "\\n";
    else escaped += character;
  }
  return escaped;
}

void Print(const std::string& prefix, const Tensor& tensor) {
  const int64_t rows = tensor.dim_size(0);
  const int64_t width = rows ? tensor.NumElements() / rows : 0;
  for (int64_t row = 0; row < rows; ++row) {
    std::cout << prefix << '\t' << row;
    for (int64_t at = row * width; at < (row + 1) * width; ++at) {
      std::cout << '\t';
      if (tensor.dtype() == tensorflow::DT_STRING) {
        std::cout << Escaped(tensor.unaligned_flat<tensorflow::tstring>()(at));
      } else if (tensor.dtype() == tensorflow::DT_FLOAT) {
        std::cout << tensor.unaligned_flat<float>()(at);
      } else if (tensor.dtype() == tensorflow::DT_BOOL) {
        std::cout << tensor.unaligned_flat<bool>()(at);
      } else if (tensor.dtype() == tensorflow::DT_INT64) {
        std::cout << tensor.unaligned_flat<int64_t>()(at);
      } else {
        std::cout << tensor.unaligned_flat<int32_t>()(at);
      }
    }
    std::cout << '\n';
  }
}

void Check(const tensorflow::Status& status) {
  if (!status.ok()) {
    std::cerr << status.ToString() << std::endl;
    exit(1);
  }
}

int main(int argc, char** argv) {
  TF_Status* loading = TF_NewStatus();
  TF_LoadLibrary(argv[2], loading);
  if (TF_GetCode(loading) != TF_OK) {
    std::cerr << TF_Message(loading) << std::endl;
    return 1;
  }
  tensorflow::SavedModelBundleLite bundle;
  Check(tensorflow::LoadSavedModel({}, {}, argv[1], {"serve"}, &bundle));
  std::vector<std::string> lines;
  for (std::string line; std::getline(std::cin, line);) lines.push_back(line);
  std::cout.precision(9);
  const auto& signatures = bundle.GetSignatures();
  const std::map<std::string, tensorflow::SignatureDef> by_name(signatures.begin(),
                                                                signatures.end());
  for (const auto& [name, signature] : by_name) {
    if (name.rfind("__saved_model", 0) == 0) continue;  // initialization
    std::vector<std::pair<std::string, Tensor>> inputs;
    for (const auto& [key, info] : signature.inputs()) {
      std::vector<std::string> rows = lines;
      if (argc > 3 && key == argv[3]) rows.pop_back();
      inputs.emplace_back(info.name(), MakeInput(key, info.dtype(), rows));
    }
    std::vector<std::string> keys, fetches;
    for (const auto& [key, info] : signature.outputs()) {
      keys.push_back(key);
      fetches.push_back(info.name());
    }
    std::vector<Tensor> outputs;
    Check(bundle.GetSession()->Run(inputs, fetches, {}, &outputs));
    for (size_t at = 0; at < keys.size(); ++at) {
      Print(name + '\t' + keys[at], outputs[at]);
    }
  }
  return 0;
}
